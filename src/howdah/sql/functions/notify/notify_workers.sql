-- A NOTIFY makes all commits of the database wait for each other, so there is one only where somebody sleeps; and, of calls that
-- are transactions by themselves, one at a time: who enqueues while another's is on its way is found by the very look that it
-- causes, or by the next one soon after. Who is inside of a longer transaction, whose end nobody knows, keeps nobody from telling.
-- A login that holds these locks for itself can do no more than make workers poll: see the doctor's advisory-lock-held.
CREATE OR REPLACE FUNCTION howdah.notify_workers(p_job_types varchar[], p_alone boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type varchar;
    v_bucket int;
    v_seen int[] := '{}';
BEGIN
    FOREACH v_type IN ARRAY p_job_types LOOP
        v_bucket := abs(hashtext(v_type) % 32);
        CONTINUE WHEN v_bucket = ANY (v_seen);
        v_seen := v_seen || v_bucket;
        IF howdah.has_sleeper(v_type) AND howdah.may_notify() AND (
            NOT p_alone OR pg_try_advisory_xact_lock('howdah.live'::regclass::oid::int, 64 + v_bucket)
        ) THEN
            PERFORM pg_notify(howdah.channel(), 'wake ' || v_bucket);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.notify_workers IS
    'Tells those who sleep on these types, once this transaction commits, that jobs may be due. Internal.';
REVOKE ALL ON FUNCTION howdah.notify_workers FROM PUBLIC;
