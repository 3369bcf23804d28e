-- What a restore must not lose, and bounds for what roles may write. Each statement may be run again: after a restore without data or
-- comments, nothing tells that it was run before.

ALTER TABLE howdah.schema_version ADD COLUMN IF NOT EXISTS rights text;
COMMENT ON COLUMN howdah.schema_version.rights IS
    'What the function rights said after the last migration. Where it says something else, a restore or a hand has changed owners or grants.';
ALTER TABLE howdah.schema_version ADD COLUMN IF NOT EXISTS stream_from bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN howdah.schema_version.stream_from IS
    'Events up to this n come from another cluster, and so do positions below it: see restamp_events.';

-- A hundred years, as check_span has it: a moment that far away can still be told.
UPDATE howdah.settings SET
    archive_retention = least(archive_retention, '36500 days'),
    cancel_grace = least(greatest(cancel_grace, '0'), '36500 days'),
    max_crashes = least(max_crashes, 1000000),
    max_interruptions = least(max_interruptions, 1000000)
WHERE archive_retention > '36500 days' OR cancel_grace NOT BETWEEN '0' AND '36500 days'
    OR max_crashes > 1000000 OR max_interruptions > 1000000;
ALTER TABLE howdah.settings
    DROP CONSTRAINT IF EXISTS settings_bounds,
    ADD CONSTRAINT settings_bounds CHECK (
        archive_retention <= '36500 days' AND cancel_grace BETWEEN '0' AND '36500 days'
        AND max_crashes <= 1000000 AND max_interruptions <= 1000000
    );

UPDATE howdah.types SET
    timeout = least(greatest(timeout, '1 millisecond'), '36500 days')
WHERE timeout <= '0' OR timeout > '36500 days';
UPDATE howdah.types SET
    expires_in = least(greatest(expires_in, '0'), '36500 days')
WHERE expires_in NOT BETWEEN '0' AND '36500 days';
ALTER TABLE howdah.types
    DROP CONSTRAINT IF EXISTS types_bounds,
    ADD CONSTRAINT types_bounds CHECK (
        timeout > '0' AND timeout <= '36500 days' AND expires_in BETWEEN '0' AND '36500 days'
    );

UPDATE howdah.schedules SET every = '36500 days' WHERE every > '36500 days';
UPDATE howdah.schedules SET
    timeout = least(greatest(timeout, '1 millisecond'), '36500 days')
WHERE timeout <= '0' OR timeout > '36500 days';
ALTER TABLE howdah.schedules
    DROP CONSTRAINT IF EXISTS schedules_bounds,
    ADD CONSTRAINT schedules_bounds CHECK (every <= '36500 days' AND timeout > '0' AND timeout <= '36500 days');
