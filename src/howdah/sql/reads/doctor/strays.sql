SELECT
    (SELECT count(*) FROM (SELECT FROM howdah.archive_default LIMIT 100000) AS a) AS archive,
    (SELECT count(*) FROM (SELECT FROM howdah.events_default LIMIT 100000) AS e) AS events
