-- Without what is stored out of line, because then a row takes at most 2 kB or so, whatever it carries. Where there is much room,
-- rows are counted until there are enough for it: what the statistics know is lost in a crash. A segment of the archive
-- tells how many jobs there may have been at once, of these very sizes.
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
