-- A NOTIFY serialises all commits of the database, so it is sent only if a worker sleeps. Of calls that are transactions by themselves,
-- one at a time sends it: a job that is enqueued while the notification of another call is on its way is found by the claim which that
-- causes, or by the next one soon after. A call inside of a longer transaction, whose end is unknown, does not suppress others.
-- A login that takes these locks can only make workers poll: see the finding advisory-lock-held of the doctor.
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
    'Notifies sleeping workers, once this transaction commits, that jobs of these types may be due. Internal.';
REVOKE ALL ON FUNCTION howdah.notify_workers FROM PUBLIC;
