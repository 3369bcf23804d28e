-- As JSON, because that has one way to write a moment, whatever the session's DateStyle.
SELECT pg_catalog.to_jsonb(howdah.clock()) AS now
