CREATE OR REPLACE FUNCTION howdah.node_inputs(p_ids uuid[], p_lazy_types varchar[] DEFAULT '{}', p_lazy_parameters text[] DEFAULT '{}')
RETURNS TABLE (
    workflow_id uuid, node int, job_type varchar, inputs jsonb, source int, source_name varchar, kind varchar, outcome varchar, jobs int, results jsonb[],
    statuses varchar[], lost int, bytes bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_asked record;
BEGIN
    FOR v_asked IN
        SELECT DISTINCT j.workflow_id, j.node FROM howdah.live AS j WHERE j.id = ANY (p_ids) AND j.inputs
    LOOP
        -- What is wrong with one node does not keep the jobs of others from their arguments.
        BEGIN
            RETURN QUERY
            SELECT
                v_asked.workflow_id, v_asked.node, n.job_type, n.inputs, p.node, p.name, p.kind, p.outcome, p.jobs, r.results, r.statuses, r.lost, r.bytes
            FROM howdah.workflow_nodes AS n
            CROSS JOIN LATERAL (
                SELECT
                    (s.source ->> 'node')::int AS node,
                    bool_and(EXISTS (
                        SELECT FROM unnest(p_lazy_types, p_lazy_parameters) AS l (job_type, parameter)
                        WHERE l.job_type = n.job_type AND l.parameter = i.input ->> 'parameter'
                    )) AS is_lazy
                FROM jsonb_array_elements(n.inputs) AS i (input) CROSS JOIN LATERAL jsonb_array_elements(i.input -> 'sources') AS s (source)
                GROUP BY 1
            ) AS source
            JOIN howdah.workflow_nodes AS p ON p.workflow_id = v_asked.workflow_id AND p.node = source.node
            LEFT JOIN LATERAL (
                SELECT o.* FROM howdah.results_of(p) AS o WHERE NOT source.is_lazy
            ) AS r ON true
            WHERE n.workflow_id = v_asked.workflow_id AND n.node = v_asked.node;
        EXCEPTION
            WHEN others THEN
                IF howdah.is_passing(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'the arguments of node % of workflow % could not be read: %', v_asked.node, v_asked.workflow_id, SQLERRM;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.node_inputs IS
    'The results that are arguments of these claimed jobs: for each node of theirs, a row for each node whose results it takes. Those of the parameters'
    ' p_lazy_parameters of p_lazy_types are left out: read them with node_results.';
REVOKE ALL ON FUNCTION howdah.node_inputs FROM PUBLIC;
