-- Whether the lock that sleepers share cannot be had. Another producer that looks at this very moment is taken
-- for a sleeper, which is harmless. One expression, for two reasons: every enqueue comes through here, and the
-- planner can put it in its place; and between two statements one could be interrupted, and keep the lock.
CREATE OR REPLACE FUNCTION howdah.has_sleeper(p_job_type varchar) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN pg_try_advisory_lock('howdah.live'::regclass::oid::int, abs(hashtext(p_job_type) % 32))
    THEN NOT pg_advisory_unlock('howdah.live'::regclass::oid::int, abs(hashtext(p_job_type) % 32))
    ELSE true
END;
COMMENT ON FUNCTION howdah.has_sleeper IS 'Whether any other session sleeps on jobs of this type. Part of notify_workers.';
REVOKE ALL ON FUNCTION howdah.has_sleeper FROM PUBLIC;
