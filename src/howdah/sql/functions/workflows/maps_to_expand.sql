CREATE OR REPLACE FUNCTION howdah.maps_to_expand(p_limit int DEFAULT 10)
RETURNS TABLE (
    workflow_id uuid, node int, name varchar, job_type varchar, parameter text, path jsonb, template jsonb, expanded int, source int, source_kind varchar,
    source_outcome varchar, results jsonb[], lost int, bytes bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_map howdah.workflow_nodes;
    v_is_there boolean;
BEGIN
    FOR v_map IN
        SELECT n.* FROM howdah.workflow_nodes AS n WHERE n.step = 'expand'
        -- Workers that look at the same moment begin with different ones.
        ORDER BY random() LIMIT p_limit
    LOOP
        -- What is wrong with one map does not stop the others.
        BEGIN
            v_is_there := howdah.is_source(v_map.items) AND jsonb_typeof(v_map.items -> 'parameter') IS NOT DISTINCT FROM 'string';
            IF v_is_there THEN
                RETURN QUERY
                SELECT
                    v_map.workflow_id, v_map.node, v_map.name, v_map.job_type, v_map.items ->> 'parameter', v_map.items -> 'path', v_map.template,
                    v_map.jobs, p.node, p.kind, p.outcome, r.results, r.lost, r.bytes
                FROM howdah.workflow_nodes AS p
                CROSS JOIN LATERAL howdah.results_of(p) AS r
                WHERE p.workflow_id = v_map.workflow_id AND p.node = (v_map.items ->> 'node')::int;
                v_is_there := FOUND;
            END IF;
            IF NOT v_is_there THEN
                RAISE WARNING 'map % of workflow % has no items that can be read', v_map.node, v_map.workflow_id;
                PERFORM howdah.fail_map(v_map.workflow_id, v_map.node, 'it has no items that can be read');
            END IF;
        EXCEPTION
            WHEN others THEN
                IF howdah.is_passing(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'map % of workflow % could not be read: %', v_map.node, v_map.workflow_id, SQLERRM;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.maps_to_expand IS
    'Maps whose jobs are to be added, with the result that has their items: of a node with several jobs, one result for each. Read the items, and call expand_map or fail_map.';
REVOKE ALL ON FUNCTION howdah.maps_to_expand FROM PUBLIC;
