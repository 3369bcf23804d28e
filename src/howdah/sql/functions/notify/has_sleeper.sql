-- True if the lock that sleepers share is not available. Another producer that checks at the same moment counts as a sleeper, which
-- is harmless. It is one expression for two reasons: every enqueue calls it, and the planner can inline it; and an interrupt between
-- two statements would leave the session with the lock.
CREATE OR REPLACE FUNCTION howdah.has_sleeper(p_job_type varchar) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN pg_try_advisory_lock('howdah.live'::regclass::oid::int, abs(hashtext(p_job_type) % 32))
    THEN NOT pg_advisory_unlock('howdah.live'::regclass::oid::int, abs(hashtext(p_job_type) % 32))
    ELSE true
END;
COMMENT ON FUNCTION howdah.has_sleeper IS 'Whether another session waits for jobs of this type. Part of notify_workers.';
REVOKE ALL ON FUNCTION howdah.has_sleeper FROM PUBLIC;
