SELECT *, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.read_events(
    p_after => %(after)s,
    p_until => %(until)s,
    p_job_types => %(job_types)s,
    p_kinds => %(kinds)s,
    p_limit => %(limit)s
)
