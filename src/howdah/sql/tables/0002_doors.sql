-- The ids of a closed segment lie between these, so that most new ids need not be looked for in it. See has_ended.
ALTER TABLE howdah.segments ADD COLUMN first_id uuid, ADD COLUMN last_id uuid;
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
ALTER TABLE howdah.settings ADD COLUMN max_payload_bytes int NOT NULL DEFAULT 16777216
    CHECK (max_payload_bytes BETWEEN 65536 AND 1073741823);
COMMENT ON COLUMN howdah.settings.max_payload_bytes IS
    'Data, results, checkpoints and events that are larger are refused with SQLSTATE JQ003: a worker holds many jobs in its memory.';

ALTER TABLE howdah.schedules ADD COLUMN declared_at timestamptz;
COMMENT ON COLUMN howdah.schedules.declared_at IS
    'When a worker whose code has it (@queue.periodic) last began; NULL if it was made by a call.';
