SELECT * FROM howdah.job_details WHERE id = %(id)s
