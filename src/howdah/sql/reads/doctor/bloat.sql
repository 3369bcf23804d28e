-- Without TOAST: a row takes at most about 2 kB then, whatever it contains. If the table is large, rows are counted until there are
-- enough to justify its size: the statistics are lost in a crash. A segment of the archive shows how many jobs of this size there may
-- have been at once.
WITH live AS MATERIALIZED (
    SELECT
        pg_relation_size('howdah.live'::regclass) AS heap, pg_indexes_size('howdah.live'::regclass) AS indexes,
        (
            SELECT coalesce(max(pg_relation_size(i.inhrelid) + pg_indexes_size(i.inhrelid)), 0)
            FROM pg_inherits AS i WHERE i.inhparent = 'howdah.archive'::regclass
        ) AS largest_segment
)
SELECT
    live.heap, live.indexes, live.largest_segment,
    (
        SELECT count(*) FROM (
            SELECT FROM howdah.live_jobs
            LIMIT CASE WHEN live.heap + live.indexes > %(large)s THEN (live.heap + live.indexes) / %(row)s ELSE 0 END
        ) AS j
    ) AS jobs
FROM live
