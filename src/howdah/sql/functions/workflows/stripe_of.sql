-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.stripe_of(p_place int) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_place BETWEEN 0 AND 999 THEN 0 ELSE abs(p_place) % 16 END;
COMMENT ON FUNCTION howdah.stripe_of IS
    'The stripe of workflow_counts that counts the job at this place of a node: one for the first thousand, 16 for further ones. Internal.';
REVOKE ALL ON FUNCTION howdah.stripe_of FROM PUBLIC;
