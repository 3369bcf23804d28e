-- It never fails, and does not wait for longer than 80 ms in one transaction. What it leaves is done by the next fold of the workflow, or by a worker.
-- An exclusive row lock on a stripe lasts from here to the end of the commit only, also in the transaction of a user.
CREATE OR REPLACE FUNCTION howdah.fold_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '80ms'
SET enable_seqscan = off
AS $$
DECLARE
    -- jobqueue.*: in a setting howdah.* the name would be replaced by that of the schema.
    v_until text[] := string_to_array(nullif(current_setting('jobqueue.fold_until', true), ''), ' ');
    v_this text := pg_current_xact_id()::text;
    v_left bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM howdah.workflow_deltas AS d WHERE d.workflow_id = NEW.workflow_id AND d.no = NEW.no) THEN
        -- Folded with an earlier one of this transaction.
        RETURN NULL;
    ELSIF v_until[1] IS DISTINCT FROM v_this THEN
        v_until := ARRAY[v_this, (extract(epoch FROM clock_timestamp()) * 1000 + 80)::bigint::text];
        PERFORM set_config('jobqueue.fold_until', array_to_string(v_until, ' '), true);
    END IF;
    v_left := v_until[2]::bigint - (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    IF v_left > 0 AND current_setting('transaction_isolation') = 'read committed' THEN
        BEGIN
            PERFORM set_config('lock_timeout', greatest(v_left / 4, 1)::text, true);
            PERFORM howdah.fold_workflow(NEW.workflow_id, 1000);
            PERFORM howdah.advance_workflow(NEW.workflow_id, 100);
        EXCEPTION
            WHEN others THEN
                -- The block is rolled back: its deltas stay, and its row locks are free. There is no second try in this transaction.
                v_left := 0;
        END;
        IF v_left = 0 THEN
            PERFORM set_config('jobqueue.fold_until', v_this || ' 0', true);
        END IF;
    END IF;
    PERFORM howdah.notify_advance(NEW.workflow_id);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.fold_at_commit IS
    'At the end of a transaction that ended jobs of workflows: counts them, and makes due what waited for them, up to a bound.';
REVOKE ALL ON FUNCTION howdah.fold_at_commit FROM PUBLIC;
