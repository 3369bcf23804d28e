SELECT pg_catalog.count(*) AS jobs FROM howdah.live
