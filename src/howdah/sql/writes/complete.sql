-- Usually all of them: then no ids are sent back. lock_timeout is set as in call_statement.
SELECT CASE WHEN pg_catalog.count(*) OPERATOR(pg_catalog.<) pg_catalog.cardinality(%(ids)s) THEN coalesce(pg_catalog.array_agg(done.id), '{}') END AS only
FROM pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true) AS bound,
    howdah.complete(p_ids => CASE WHEN bound IS NOT NULL THEN %(ids)s END, p_tokens => %(tokens)s, p_results => %(results)s) AS done
