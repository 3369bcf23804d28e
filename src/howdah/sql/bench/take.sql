-- Whether no other bench is at work in this schema. For as long as this transaction: a pooler that lends connections
-- by the transaction would leave a session's lock with somebody else. Idle, it holds no snapshot and keeps no row alive.
SELECT
    pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('howdah.bench', 0)) AS taken,
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)
