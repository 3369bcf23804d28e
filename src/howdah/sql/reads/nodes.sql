SELECT n.* FROM howdah.node_details AS n WHERE n.workflow_id OPERATOR(pg_catalog.=) %(id)s ORDER BY n.node
