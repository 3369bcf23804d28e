SELECT DISTINCT n.job_type FROM howdah.node_details AS n WHERE n.workflow_id OPERATOR(pg_catalog.=) %(id)s
