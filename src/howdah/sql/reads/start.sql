-- Mostly all of them: then no id needs to be sent back.
SELECT CASE WHEN count(*) < cardinality(%(ids)s) THEN coalesce(array_agg(begun.id), '{}') END AS only
FROM howdah.start(p_ids => %(ids)s, p_tokens => %(tokens)s) AS begun
