SELECT t.job_type, t.paused_at, t.paused_because FROM howdah.types AS t
