-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.is_stray(p_type howdah.types, p_job howdah.live) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN (p_job.flow_key IS NOT NULL) <> p_type.keyed OR (p_job.order_key IS NOT NULL) <> p_type.ordered
    -- A type that got a per: jobs with the empty key may have a better one.
    OR (p_type.keyed AND p_job.flow_key = '' AND p_job.data ->> p_type.per <> '');
COMMENT ON FUNCTION howdah.is_stray IS 'Whether a pending job does not follow the rules of its type yet: see apply_flow. Internal.';
REVOKE ALL ON FUNCTION howdah.is_stray FROM PUBLIC;
