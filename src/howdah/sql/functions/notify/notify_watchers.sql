-- A NOTIFY makes all commits of the database wait for each other, so there is one only where somebody watches.
CREATE OR REPLACE FUNCTION howdah.notify_watchers(p_job_types varchar[]) RETURNS void
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
        -- Twice, because another one who looks at this very moment is taken for somebody who watches.
        IF howdah.has_watcher(v_type) AND howdah.has_watcher(v_type) AND howdah.may_notify() THEN
            PERFORM pg_notify(howdah.channel(), 'news ' || v_bucket);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.notify_watchers IS
    'Tells those who watch these types, once this transaction commits, that there is news of their jobs. Internal.';
REVOKE ALL ON FUNCTION howdah.notify_watchers FROM PUBLIC;
