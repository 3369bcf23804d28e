SELECT 1 AS held FROM howdah.live AS j WHERE j.id = %(id)s AND j.token = %(token)s AND j.status <> 'pending'
