-- What a restore leaves incomplete, though functions and tables are of this version. Limited to what a viewer may read, for the doctor.
SELECT
    ARRAY(
        SELECT 'settings' WHERE NOT EXISTS (SELECT FROM howdah.settings)
        UNION ALL
        SELECT 'segments' WHERE pg_catalog.to_regclass('howdah.archive_open') IS NULL OR pg_catalog.to_regclass('howdah.archive_next') IS NULL
            OR NOT EXISTS (SELECT FROM howdah.segments AS s WHERE s.closed_at IS NULL)
    ) AS missing_rows,
    -- Of another cluster: here, no transaction that has ended has such a number.
    EXISTS (
        SELECT FROM howdah.event_details AS e
        WHERE e.xid OPERATOR(pg_catalog.>=) pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
            AND coalesce(e.xid OPERATOR(pg_catalog.<>) pg_catalog.pg_current_xact_id_if_assigned(), true)
    ) AS has_foreign_events
