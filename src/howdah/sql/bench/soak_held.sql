-- The jobs that the worker with this process holds.
SELECT j.id FROM howdah.live AS j JOIN howdah.workers AS w ON j.worker_id = w.worker_id
WHERE w.pid = %(pid)s AND j.status <> 'pending'
