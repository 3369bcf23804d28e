-- As JSON, because it formats a timestamp in one way, whatever the DateStyle of the session.
SELECT pg_catalog.to_jsonb(howdah.clock()) AS now
