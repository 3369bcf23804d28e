-- The jobs that the worker with this process holds.
SELECT j.id FROM howdah.live AS j JOIN howdah.workers AS w ON j.worker_id OPERATOR(pg_catalog.=) w.worker_id
WHERE w.pid OPERATOR(pg_catalog.=) %(pid)s AND j.status OPERATOR(pg_catalog.<>) 'pending'
