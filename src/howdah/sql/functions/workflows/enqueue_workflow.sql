CREATE OR REPLACE FUNCTION howdah.enqueue_workflow(
    p_name varchar,
    p_id uuid DEFAULT NULL,
    p_key text DEFAULT NULL,
    p_data jsonb DEFAULT NULL,
    p_deadline_at timestamptz DEFAULT NULL,
    p_deadline interval DEFAULT NULL,
    p_max_age interval DEFAULT NULL,
    p_meta jsonb DEFAULT NULL
) RETURNS TABLE (id uuid, created boolean, created_at timestamptz, deadline_at timestamptz, expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    IF p_name IS NULL OR p_name = '' OR length(p_name) > 100 OR p_name ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'the name of a workflow is 1 to 100 characters without control characters' USING ERRCODE = 'JQ001';
    END IF;
    PERFORM howdah.check_keys(ARRAY[p_key]) WHERE p_key IS NOT NULL;
    PERFORM howdah.check_size(ARRAY[p_data], 'the data of a workflow') WHERE pg_column_size(p_data) > 65536;
    PERFORM howdah.check_meta(p_meta) WHERE p_meta IS NOT NULL;
    PERFORM howdah.check_span(p_deadline, 'deadline') WHERE p_deadline IS NOT NULL;
    PERFORM howdah.check_span(p_max_age, 'max_age') WHERE p_max_age IS NOT NULL;
    LOOP
        INSERT INTO howdah.workflows AS w (id, name, key, data, created_at, deadline_at, expires_at, meta)
        SELECT
            coalesce(p_id, howdah.new_id()), p_name, p_key, p_data, howdah.clock(), coalesce(p_deadline_at, howdah.clock() + p_deadline),
            howdah.clock() + coalesce(p_max_age, (SELECT s.workflow_max_age FROM howdah.settings AS s)), p_meta
        ON CONFLICT DO NOTHING
        RETURNING w.id, true, w.created_at, w.deadline_at, w.expires_at INTO id, created, created_at, deadline_at, expires_at;
        IF FOUND THEN
            INSERT INTO howdah.workflow_nodes (workflow_id, node, name, kind, when_) VALUES (id, 0, '', 'end', 'always');
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT w.id, false, w.created_at, w.deadline_at, w.expires_at INTO id, created, created_at, deadline_at, expires_at
        FROM howdah.workflows AS w WHERE w.id = p_id OR (w.name = p_name AND w.key = p_key)
        ORDER BY w.id = p_id DESC LIMIT 1;
        IF FOUND THEN
            RETURN NEXT;
            RETURN;
        ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'another transaction has added this workflow: repeat yours' USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.enqueue_workflow IS
    'Adds a workflow without nodes. In the same transaction, call add_nodes and add_node_jobs, and start_workflow at the end. If there is one with'
    ' this id, or with this name and key, returns that, with created = false: then add nothing. p_deadline_at, p_deadline: it fails if it has not ended by then.';
REVOKE ALL ON FUNCTION howdah.enqueue_workflow FROM PUBLIC;
