-- The first schema. In every .sql file the word howdah is the schema's name: as written it is valid
-- SQL for the default schema, and it is the only thing that is substituted for another one.

DO $$
BEGIN
    -- Not IF NOT EXISTS: that asks for the right to create schemas even where an administrator made this one.
    IF to_regnamespace('howdah') IS NULL THEN
        CREATE SCHEMA howdah;
    END IF;
END
$$;

CREATE TABLE howdah.schema_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version int NOT NULL,
    oldest_client int NOT NULL,
    digest text NOT NULL,
    howdah_version text NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE howdah.schema_version IS
    'What is installed here. oldest_client is the oldest schema version whose clients still work with it.';

CREATE TABLE howdah.settings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    archive_retention interval NOT NULL DEFAULT '14 days' CHECK (archive_retention >= '0'),
    archive_days_ahead int NOT NULL DEFAULT 7 CHECK (archive_days_ahead BETWEEN 1 AND 365),
    cancel_grace interval NOT NULL DEFAULT '30 seconds',
    max_crashes int NOT NULL DEFAULT 3 CHECK (max_crashes >= 1),
    max_interruptions int NOT NULL DEFAULT 10 CHECK (max_interruptions >= 0)
);
COMMENT ON TABLE howdah.settings IS 'What an operator may change, in one row.';
INSERT INTO howdah.settings DEFAULT VALUES;

CREATE TABLE howdah.types (
    job_type varchar(50) PRIMARY KEY,
    paused_at timestamptz,
    paused_because text,
    ordered boolean NOT NULL DEFAULT false,
    pause_on_failure boolean NOT NULL DEFAULT false,
    priority int,
    max_attempts int,
    timeout interval,
    expires_in interval,
    retry_policy jsonb,
    max_crashes int,
    declared_at timestamptz
);
COMMENT ON TABLE howdah.types IS
    'What is known of a job type. A type needs no row here; its defaults reach producers that lack the handler.';

CREATE TABLE howdah.workers (
    worker_id varchar(100) PRIMARY KEY,
    boot uuid NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    registered_at timestamptz NOT NULL,
    lease interval NOT NULL CHECK (lease > '0'),
    started_at timestamptz NOT NULL,
    host text,
    pid int,
    version text,
    job_types varchar(50)[],
    capacity int,
    running int,
    meta jsonb
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.workers IS 'One row for each worker that beats. Who holds jobs without a row here lives by lease_until.';

CREATE TABLE howdah.live (
    id uuid PRIMARY KEY,
    token bigint NOT NULL DEFAULT 0,
    run_at timestamptz NOT NULL,
    first_due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    lease_until timestamptz,
    deadline_at timestamptz,
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    timeout interval,
    lease interval,
    parent_id uuid,
    workflow_id uuid,
    priority int NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    max_attempts int NOT NULL,
    crashes int NOT NULL DEFAULT 0,
    interruptions int NOT NULL DEFAULT 0,
    progress int NOT NULL DEFAULT 0,
    events_count int NOT NULL DEFAULT 0,
    job_type varchar(50) NOT NULL,
    status varchar(20) NOT NULL DEFAULT 'pending',
    data jsonb NOT NULL DEFAULT '{}',
    key text,
    order_key text,
    worker_id varchar(100),
    current_stage varchar(100),
    last_error text,
    errors jsonb,
    result jsonb,
    checkpoint jsonb,
    retry_policy jsonb,
    meta jsonb,
    CONSTRAINT live_status CHECK (status IN ('pending', 'claimed', 'running'))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);
COMMENT ON TABLE howdah.live IS
    'Jobs that have not ended. claimed_at stays from the last claim, here and in the archive, so that no two claims of a job share it.';

CREATE INDEX live_lane ON howdah.live (job_type, priority DESC, run_at, id)
    WHERE status = 'pending' AND attempts < max_attempts;
CREATE INDEX live_held ON howdah.live (worker_id) WHERE status IN ('claimed', 'running');
CREATE UNIQUE INDEX live_key ON howdah.live (job_type, key) WHERE key IS NOT NULL;
CREATE INDEX live_order ON howdah.live (job_type, order_key, priority DESC, first_due_at, id)
    WHERE order_key IS NOT NULL;
CREATE UNIQUE INDEX live_order_lease ON howdah.live (job_type, order_key)
    WHERE order_key IS NOT NULL AND status IN ('claimed', 'running');
CREATE INDEX live_expiry ON howdah.live (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX live_spent ON howdah.live (id) WHERE status = 'pending' AND attempts >= max_attempts;

CREATE TABLE howdah.archive (
    id uuid NOT NULL,
    token bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    first_due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    completed_at timestamptz,
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    timeout interval,
    parent_id uuid,
    workflow_id uuid,
    priority int NOT NULL,
    attempts int NOT NULL,
    max_attempts int NOT NULL,
    crashes int NOT NULL,
    interruptions int NOT NULL,
    progress int NOT NULL,
    events_count int NOT NULL,
    job_type varchar(50) NOT NULL,
    status varchar(20) NOT NULL,
    data jsonb NOT NULL,
    key text,
    order_key text,
    worker_id varchar(100),
    current_stage varchar(100),
    last_error text,
    errors jsonb,
    result jsonb,
    checkpoint jsonb,
    retry_policy jsonb,
    meta jsonb,
    CONSTRAINT archive_status CHECK (status IN ('completed', 'failed', 'cancelled'))
) PARTITION BY RANGE (finished_at);
COMMENT ON TABLE howdah.archive IS
    'Jobs that have ended, by the UTC day on which they did. Append-only: retention drops whole days.';

CREATE INDEX archive_id ON howdah.archive (id);
CREATE INDEX archive_unsuccessful ON howdah.archive (id) WHERE status <> 'completed';

-- A completion that finds no partition of its day lands here, and is moved once the day is over.
CREATE TABLE howdah.archive_default PARTITION OF howdah.archive DEFAULT;

CREATE TABLE howdah.archive_counts (
    day date NOT NULL,
    job_type varchar(50) NOT NULL,
    status varchar(20) NOT NULL,
    jobs bigint NOT NULL
);
COMMENT ON TABLE howdah.archive_counts IS
    'How many jobs the archive holds, as appended differences: no row is ever contended for. compact_counts folds them.';

CREATE SEQUENCE howdah.id_counter CACHE 32;

CREATE TYPE howdah.lane_head AS (job_type varchar, priority int, run_at timestamptz, id uuid, ordered boolean);
COMMENT ON TYPE howdah.lane_head IS 'A lane as a claim sees it: a type, and the first job that may be taken from it.';
