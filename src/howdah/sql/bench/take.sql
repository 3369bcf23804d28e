-- Takes the lock of the bench in this schema; if that fails, names the session that holds it. The lock lasts as long as this transaction:
-- behind a pooler that assigns connections by transaction, a session's lock would stay with another client. While idle, the transaction
-- holds no snapshot, so vacuum is not held up.
SELECT
    pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('howdah.bench', 0)) AS taken,
    (
        SELECT pg_catalog.min(l.pid) FROM pg_catalog.pg_locks AS l
        WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted AND l.objsubid OPERATOR(pg_catalog.=) 1
            AND l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
            AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
            AND (l.classid::bigint OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.|) l.objid::bigint) OPERATOR(pg_catalog.=) pg_catalog.hashtextextended('howdah.bench', 0)
    ) AS held_by,
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)
