SELECT *, coalesce(stalls_at < howdah.clock(), false) AS stalled FROM howdah.job_details WHERE id = ANY (%(ids)s::uuid[])
