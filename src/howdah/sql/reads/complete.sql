-- Mostly all of them: then no id needs to be sent back.
SELECT CASE WHEN count(*) < cardinality(%(ids)s) THEN coalesce(array_agg(done.id), '{}') END AS only
FROM howdah.complete(p_ids => %(ids)s, p_tokens => %(tokens)s, p_results => %(results)s) AS done
