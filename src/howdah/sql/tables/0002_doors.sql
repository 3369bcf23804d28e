-- What outsiders, restores, clocks and other transactions must not break. Each statement may be run again: after a restore without
-- data or comments, nothing tells that it was run before.

-- Liveness by generations and elapsed time. A clock that goes back gives a later claim an earlier stamp, so no order of stamps may
-- decide which life of a worker a claim is of.

CREATE SEQUENCE IF NOT EXISTS howdah.worker_generations;
ALTER TABLE howdah.workers ADD COLUMN IF NOT EXISTS generation bigint NOT NULL DEFAULT nextval('howdah.worker_generations');
COMMENT ON COLUMN howdah.workers.generation IS 'A new one for each registration. It is the part of the worker''s name that its claims keep.';
ALTER TABLE howdah.live ADD COLUMN IF NOT EXISTS generation bigint;
COMMENT ON COLUMN howdah.live.generation IS
    'Of the registration that claimed the job. NULL where the holder is not registered, and for claims from before this column.';

CREATE TABLE IF NOT EXISTS howdah.clock_mark (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    latest timestamptz NOT NULL
);
COMMENT ON TABLE howdah.clock_mark IS 'The time of the last sweep: a clock that shows less has gone back. See follow_clock.';
INSERT INTO howdah.clock_mark (latest) VALUES ('-infinity') ON CONFLICT DO NOTHING;

-- A type that becomes ordered waits for nothing: see reorder.
ALTER TABLE howdah.types ADD COLUMN IF NOT EXISTS settling text[];
COMMENT ON COLUMN howdah.types.settling IS
    'Transactions from before the type became ordered, or ceased to be, which may still add jobs as it was then. Empty: not looked for yet.'
    ' NULL: there are none.';
CREATE INDEX IF NOT EXISTS types_settling ON howdah.types (job_type) WHERE settling IS NOT NULL;

-- The ids of a closed segment lie between these, so that most new ids need not be looked for in it. See has_ended.
ALTER TABLE howdah.segments ADD COLUMN IF NOT EXISTS first_id uuid, ADD COLUMN IF NOT EXISTS last_id uuid;
COMMENT ON COLUMN howdah.segments.first_id IS
    'Of a closed segment, the first and the last id of its jobs: see rotate. NULL: it had none.';
DO $$
DECLARE
    v_number int;
BEGIN
    FOR v_number IN SELECT s.number FROM howdah.segments AS s WHERE s.closed_at IS NOT NULL LOOP
        EXECUTE format(
            'UPDATE howdah.segments SET first_id = (SELECT a.id FROM howdah.%1$I AS a ORDER BY a.id LIMIT 1),'
            ' last_id = (SELECT a.id FROM howdah.%1$I AS a ORDER BY a.id DESC LIMIT 1) WHERE number = %2$L',
            'archive_' || v_number, v_number
        );
    END LOOP;
END
$$;

-- Less than the least of these bounds is never looked at: see check_size.
ALTER TABLE howdah.settings ADD COLUMN IF NOT EXISTS max_payload_bytes int NOT NULL DEFAULT 16777216
    CHECK (max_payload_bytes BETWEEN 65536 AND 1073741823);
COMMENT ON COLUMN howdah.settings.max_payload_bytes IS
    'Data, results, checkpoints and events that are larger are refused with SQLSTATE JQ003: a worker holds many jobs in its memory.';

ALTER TABLE howdah.schedules ADD COLUMN IF NOT EXISTS declared_at timestamptz;
COMMENT ON COLUMN howdah.schedules.declared_at IS
    'When a worker whose code has it (@queue.periodic) last began; NULL if it was made by a call.';

-- As they were before they had more parameters.
DROP FUNCTION IF EXISTS howdah.take_back(varchar);
DROP FUNCTION IF EXISTS howdah.check_schedule(text, text, interval, text);

-- What a restore must not lose, and bounds for what roles may write.

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

-- What a worker says of itself is counted with by all who read it.
DELETE FROM howdah.workers AS w WHERE w.lease > '36500 days' OR EXISTS (
    SELECT FROM unnest(ARRAY[w.heartbeat_at, w.fresh_since, w.registered_at, w.started_at, w.last_claim_at]) AS m (moment)
    WHERE m.moment NOT BETWEEN '0001-01-02 UTC' AND '9999-12-30 UTC'
);
ALTER TABLE howdah.workers
    DROP CONSTRAINT IF EXISTS workers_bounds,
    ADD CONSTRAINT workers_bounds CHECK (
        lease <= '36500 days' AND least(heartbeat_at, fresh_since, registered_at, started_at, last_claim_at) >= '0001-01-02 UTC'
        AND greatest(heartbeat_at, fresh_since, registered_at, started_at, last_claim_at) <= '9999-12-30 UTC'
    );

UPDATE howdah.schedules SET every = '36500 days' WHERE every > '36500 days';
UPDATE howdah.schedules SET
    timeout = least(greatest(timeout, '1 millisecond'), '36500 days')
WHERE timeout <= '0' OR timeout > '36500 days';
ALTER TABLE howdah.schedules
    DROP CONSTRAINT IF EXISTS schedules_bounds,
    ADD CONSTRAINT schedules_bounds CHECK (every <= '36500 days' AND timeout > '0' AND timeout <= '36500 days');
