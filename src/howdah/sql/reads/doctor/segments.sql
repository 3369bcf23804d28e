-- Twice the time after which a rotation is due, because workers check only now and then. Of the sessions of other roles PostgreSQL shows
-- only the pid. NULL as long as no job has ended.
WITH setting AS (
    SELECT s.archive_retention AS keep, greatest(s.archive_retention / 6, interval '30 minutes') AS late FROM howdah.settings AS s
)
SELECT
    (
        SELECT extract(epoch FROM howdah.clock() - s.opened_at - setting.late / 2)::float8 FROM howdah.segments AS s
        WHERE s.closed_at IS NULL AND s.opened_at < howdah.clock() - setting.late
            AND pg_relation_size('howdah.archive_open'::regclass) > 0
    ) AS rotation_due,
    (
        SELECT count(*) FROM howdah.segments AS s
        WHERE coalesce(s.last_end, s.closed_at) < howdah.clock() - setting.keep - interval '30 minutes'
    ) AS overdue,
    ARRAY(
        SELECT DISTINCT format('pid %%s (%%s)', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'))
        FROM pg_locks AS l
        JOIN pg_class AS c ON c.oid = l.relation
        JOIN pg_stat_activity AS a ON a.pid = l.pid
        WHERE l.granted AND l.pid <> pg_backend_pid() AND c.relnamespace = 'howdah'::regnamespace
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND c.relname ~ '^(archive|events)(_|$)'
        ORDER BY 1
    ) AS holders
FROM setting
