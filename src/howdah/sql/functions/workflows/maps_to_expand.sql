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
BEGIN
    RETURN QUERY
    SELECT
        m.workflow_id, m.node, m.name, m.job_type, m.items ->> 'parameter', m.items -> 'path', m.template, m.jobs, p.node, p.kind, p.outcome,
        r.results, r.lost, r.bytes
    FROM (
        SELECT n.* FROM howdah.workflow_nodes AS n WHERE n.step = 'expand'
        -- Workers that look at the same moment begin with different ones.
        ORDER BY random() LIMIT p_limit
    ) AS m
    JOIN howdah.workflow_nodes AS p ON p.workflow_id = m.workflow_id AND p.node = (m.items ->> 'node')::int
    CROSS JOIN LATERAL howdah.results_of(p) AS r;
END
$$;
COMMENT ON FUNCTION howdah.maps_to_expand IS
    'Maps whose jobs are to be added, with the result that has their items: of a node with several jobs, one result for each. Read the items, and call expand_map or fail_map.';
REVOKE ALL ON FUNCTION howdah.maps_to_expand FROM PUBLIC;
