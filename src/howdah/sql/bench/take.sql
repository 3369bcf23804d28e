-- Whether no other bench is at work in this schema, and which session is in the way: any login can be. For as long as this transaction: a
-- pooler that lends connections by the transaction would leave a session's lock with somebody else. Idle, it holds no snapshot and keeps
-- no row alive.
SELECT
    pg_try_advisory_xact_lock(hashtextextended('howdah.bench', 0)) AS taken,
    (
        SELECT min(l.pid) FROM pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('howdah.bench', 0)
    ) AS held_by,
    set_config('idle_in_transaction_session_timeout', '0', true)
