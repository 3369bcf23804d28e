-- A NOTIFY serialises all commits of the database, so it is sent only if a session watches.
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
        -- Twice, because another session that checks at the same moment looks like a watcher.
        IF howdah.has_watcher(v_type) AND howdah.has_watcher(v_type) AND howdah.may_notify() THEN
            PERFORM pg_notify(howdah.channel(), 'news ' || v_bucket);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.notify_watchers IS
    'Notifies the watchers of these types, once this transaction commits, that their jobs have changed. Internal.';
REVOKE ALL ON FUNCTION howdah.notify_watchers FROM PUBLIC;
