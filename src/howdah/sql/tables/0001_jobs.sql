-- The first schema. In every .sql file the word howdah is the name of the schema: the file is valid SQL for the default schema, and for
-- another schema only this name is substituted.

DO $$
BEGIN
    -- Not IF NOT EXISTS: that needs the right to create schemas even if an administrator created this one.
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
    views_digest text,
    howdah_version text NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT now(),
    rights text,
    stream_from bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE howdah.schema_version IS
    'What is installed here. oldest_client is the oldest schema version whose clients still work with it.';
COMMENT ON COLUMN howdah.schema_version.views_digest IS
    'Identifies the version of the views. Replacing a view waits for its readers, so a migration does it only where a view changed.';
COMMENT ON COLUMN howdah.schema_version.rights IS
    'The result of the function rights after the last migration. If it returns something else now, a restore or an administrator'
    ' has changed owners or grants.';
COMMENT ON COLUMN howdah.schema_version.stream_from IS
    'Events up to this stream_no come from another cluster, and so do positions below it: see restamp_events.';

CREATE TABLE howdah.settings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    archive_retention interval NOT NULL DEFAULT '14 days' CHECK (archive_retention >= '0'),
    cancel_grace interval NOT NULL DEFAULT '30 seconds',
    max_crashes int NOT NULL DEFAULT 3 CHECK (max_crashes >= 1),
    max_interruptions int NOT NULL DEFAULT 10 CHECK (max_interruptions >= 0),
    -- Smaller values are never measured: see check_size.
    max_payload_bytes int NOT NULL DEFAULT 16777216 CHECK (max_payload_bytes BETWEEN 65536 AND 1073741823),
    -- A hundred years, as in check_span: a timestamp that far away can still be represented.
    CONSTRAINT settings_bounds CHECK (
        archive_retention <= '36500 days' AND cancel_grace BETWEEN '0' AND '36500 days'
        AND max_crashes <= 1000000 AND max_interruptions <= 1000000
    )
);
COMMENT ON TABLE howdah.settings IS 'The settings that an operator may change, in one row.';
COMMENT ON COLUMN howdah.settings.max_payload_bytes IS
    'Larger data, results, checkpoints and events are refused with SQLSTATE JQ003: a worker keeps many jobs in memory.';
INSERT INTO howdah.settings DEFAULT VALUES;

CREATE TABLE howdah.types (
    job_type varchar(50) PRIMARY KEY,
    paused_at timestamptz,
    paused_because text,
    ordered boolean NOT NULL DEFAULT false,
    pause_on_failure boolean NOT NULL DEFAULT false,
    fail_stalled boolean NOT NULL DEFAULT false,
    priority int,
    max_attempts int,
    timeout interval,
    expires_in interval,
    retry_policy jsonb,
    max_crashes int,
    declared_at timestamptz,
    settling text[],
    CONSTRAINT types_bounds CHECK (
        timeout > '0' AND timeout <= '36500 days' AND expires_in BETWEEN '0' AND '36500 days'
    )
);
COMMENT ON TABLE howdah.types IS
    'The settings of job types. A type needs no row here. Its defaults also apply to jobs of producers that lack the handler.';
COMMENT ON COLUMN howdah.types.settling IS
    'Transactions from before the type became ordered, or unordered, which may still add jobs the old way: see apply_order. Empty: not'
    ' looked up yet. NULL: there are none.';
CREATE INDEX types_settling ON howdah.types (job_type) WHERE settling IS NOT NULL;

-- Liveness is decided by generations and elapsed time. A clock that goes back gives a later claim an earlier timestamp, so the order of
-- timestamps cannot show which registration of a worker made a claim.
CREATE SEQUENCE howdah.worker_generations;

CREATE TABLE howdah.clock_mark (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    latest timestamptz NOT NULL
);
COMMENT ON TABLE howdah.clock_mark IS 'The time of the last sweep. A clock that shows less has gone back: see follow_clock.';
INSERT INTO howdah.clock_mark (latest) VALUES ('-infinity');

CREATE TABLE howdah.workers (
    worker_id varchar(100) PRIMARY KEY,
    incarnation uuid NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    fresh_since timestamptz,
    registered_at timestamptz NOT NULL,
    lease interval NOT NULL CHECK (lease > '0'),
    started_at timestamptz NOT NULL,
    last_claim_at timestamptz,
    host text,
    pid int,
    version text,
    job_types varchar(50)[],
    capacity int,
    running int,
    loop_lag interval,
    leaked int,
    throughput jsonb,
    meta jsonb,
    generation bigint NOT NULL DEFAULT nextval('howdah.worker_generations'),
    CONSTRAINT workers_bounds CHECK (
        lease <= '36500 days' AND least(heartbeat_at, fresh_since, registered_at, started_at, last_claim_at) >= '0001-01-02 UTC'
        AND greatest(heartbeat_at, fresh_since, registered_at, started_at, last_claim_at) <= '9999-12-30 UTC'
    )
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.workers IS
    'One row for each worker that sends heartbeats. A holder of jobs without a row here has a lease for each job: lease_until.';
COMMENT ON COLUMN howdah.workers.fresh_since IS
    'Since when its heartbeats have come without a gap. A worker that was out of touch itself must not declare others dead.';
COMMENT ON COLUMN howdah.workers.generation IS
    'A new number for each registration. Claims keep it, so that those of an earlier registration are recognised.';
COMMENT ON COLUMN howdah.workers.throughput IS
    'For each type that it ran lately: how many jobs it ended per second while there were any (per_second), and the mean number of seconds'
    ' that they ran (run) and had been due before (wait).';

-- Jobs. `jobs` is the table for plain SQL clients, with their 16 columns in their order. It is an inheritance parent, and empty itself:
-- live jobs are in `live`, ended ones in the segments of `archive`, each with more columns after these. So SELECT ... FOR UPDATE SKIP
-- LOCKED of a client locks real rows, its UPDATE writes the columns that it sets, and row counts are PostgreSQL's own. The functions of
-- Howdah never use the parent. Triggers check the writes of plain clients: see sql/setup.

CREATE TABLE howdah.jobs (
    id uuid CONSTRAINT jobs_pkey PRIMARY KEY,
    job_type varchar(50) NOT NULL,
    -- Without a default, because the type may have one: see plain_defaults.
    priority int NOT NULL,
    status varchar(20) NOT NULL DEFAULT 'pending',
    data jsonb NOT NULL DEFAULT '{}',
    progress int DEFAULT 0,
    current_stage varchar(100),
    events_count int DEFAULT 0,
    worker_id varchar(100),
    claimed_at timestamptz,
    created_at timestamptz,
    started_at timestamptz,
    completed_at timestamptz,
    attempts int DEFAULT 0,
    max_attempts int,
    last_error text,
    CONSTRAINT valid_status CHECK (
        status IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled')
    ) NO INHERIT
-- An INSERT by a plain client passes through here, and leaves a dead row behind.
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE howdah.jobs IS 'Every job, live or ended, with the columns for plain SQL clients.';

CREATE TABLE howdah.live (
    progress int NOT NULL DEFAULT 0,
    events_count int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    max_attempts int NOT NULL,
    token bigint NOT NULL DEFAULT 0,
    run_at timestamptz NOT NULL,
    first_due_at timestamptz NOT NULL,
    lease_until timestamptz,
    deadline_at timestamptz,
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    timeout interval,
    lease interval,
    crashes int NOT NULL DEFAULT 0,
    interruptions int NOT NULL DEFAULT 0,
    own_write boolean NOT NULL DEFAULT false,
    names_error boolean,
    parent_id uuid,
    workflow_id uuid,
    key text,
    order_key text,
    errors jsonb,
    result jsonb,
    checkpoint jsonb,
    retry_policy jsonb,
    meta jsonb,
    progress_report jsonb,
    generation bigint,
    PRIMARY KEY (id),
    CONSTRAINT valid_status CHECK (status IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled'))
) INHERITS (howdah.jobs) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);
COMMENT ON TABLE howdah.live IS
    'Jobs that have not ended. A job that a plain client ends stays here until the end of its statement.';
COMMENT ON COLUMN howdah.live.own_write IS
    'Flipped by each UPDATE of a function of Howdah. An UPDATE that does not flip it comes from a plain client: see plain_update.';
COMMENT ON COLUMN howdah.live.names_error IS
    'True only during an UPDATE that sets last_error: see plain_names_error.';
COMMENT ON COLUMN howdah.live.progress_report IS
    'The progress that the job reported; NULL if it reported none. See merged_progress. seq counts its events.';
COMMENT ON COLUMN howdah.live.generation IS
    'The registration that claimed the job. NULL if the holder is not registered.';
-- A claim adds a new version of a job to the index, next to the old one: a page with room for it is not split.
ALTER INDEX howdah.live_pkey SET (fillfactor = 50);

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
    progress int NOT NULL,
    events_count int NOT NULL,
    created_at timestamptz NOT NULL,
    attempts int NOT NULL,
    max_attempts int NOT NULL,
    token bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    first_due_at timestamptz NOT NULL,
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    timeout interval,
    crashes int NOT NULL,
    interruptions int NOT NULL,
    parent_id uuid,
    workflow_id uuid,
    key text,
    order_key text,
    errors jsonb,
    result jsonb,
    checkpoint jsonb,
    retry_policy jsonb,
    meta jsonb,
    progress_report jsonb,
    -- With this constraint, the planner skips the archive when a plain client queries pending jobs.
    CONSTRAINT archive_status CHECK (status IN ('completed', 'failed', 'cancelled'))
) INHERITS (howdah.jobs);
COMMENT ON TABLE howdah.archive IS
    'Jobs that have ended, in segments: they are added to archive_open, which is closed at intervals. Retention drops whole segments.';

CREATE SEQUENCE howdah.event_counter;

CREATE TABLE howdah.events (
    stream_no bigint NOT NULL DEFAULT nextval('howdah.event_counter'),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL,
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    seq int NOT NULL,
    attempt int NOT NULL,
    job_type varchar(50) NOT NULL,
    kind varchar(10) NOT NULL,
    name varchar(100) NOT NULL,
    data jsonb,
    CONSTRAINT events_kind CHECK (kind IN ('event', 'log', 'status'))
);
COMMENT ON TABLE howdah.events IS
    'What happened to jobs, in segments like the archive: new events are added to events_open.';
COMMENT ON COLUMN howdah.events.seq IS
    'Its number within the job. It is assigned while the row of the job is locked, so it is also the order of commits.';
COMMENT ON COLUMN howdah.events.stream_no IS 'Grows with seq within a job. Between jobs it does not follow the order of commits: see read_events.';

CREATE TABLE howdah.segments (
    number int PRIMARY KEY CHECK (number > 0),
    opened_at timestamptz NOT NULL,
    closed_at timestamptz,
    first_end timestamptz,
    last_end timestamptz,
    first_id uuid,
    last_id uuid
);
COMMENT ON TABLE howdah.segments IS
    'The segments of the archive and of the events. The one that is not closed is archive_open and events_open; segment 17, closed, is'
    ' archive_17 and events_17. The row of the open one is the lock for all changes to segments and their counts.';
COMMENT ON COLUMN howdah.segments.first_end IS 'When the first of its jobs ended (last_end: the last). Set after it is closed: see bound_segments.';
COMMENT ON COLUMN howdah.segments.first_id IS
    'The first id of the jobs of a closed segment (last_id: the last), so that most new ids need not be looked up in it: see rotate, has_ended.'
    ' NULL: it has no jobs.';
CREATE UNIQUE INDEX segments_open ON howdah.segments ((closed_at IS NULL)) WHERE closed_at IS NULL;

CREATE TABLE howdah.archive_counts (
    segment int NOT NULL DEFAULT 0,
    day date NOT NULL,
    job_type varchar(50) NOT NULL,
    status varchar(20) NOT NULL,
    jobs bigint NOT NULL
);
COMMENT ON TABLE howdah.archive_counts IS
    'The number of jobs in the archive, as appended differences, so that writers never wait for a row. compact_counts merges them.';
COMMENT ON COLUMN howdah.archive_counts.segment IS '0: the open segment.';

CREATE SEQUENCE howdah.id_counter CACHE 32;

CREATE TYPE howdah.lane_head AS (job_type varchar, priority int, run_at timestamptz, id uuid, ordered boolean, max_jobs int);
COMMENT ON TYPE howdah.lane_head IS 'A lane of a claim: a type, its first job that may be claimed, and its limit.';

CREATE TABLE howdah.schedules (
    name varchar(100) PRIMARY KEY,
    job_type varchar(50) NOT NULL,
    data jsonb NOT NULL DEFAULT '{}',
    cron text,
    every interval,
    timezone text NOT NULL DEFAULT 'UTC',
    missed text NOT NULL DEFAULT 'last' CHECK (missed IN ('none', 'last', 'all')),
    overlap boolean NOT NULL DEFAULT true,
    priority int,
    max_attempts int,
    timeout interval,
    retry_policy jsonb,
    next_run_at timestamptz,
    next_run_known boolean NOT NULL DEFAULT false,
    last_run_at timestamptz,
    last_job_id uuid,
    paused_at timestamptz,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    declared_at timestamptz,
    CONSTRAINT schedules_rhythm CHECK ((cron IS NULL) <> (every IS NULL)),
    CONSTRAINT schedules_every CHECK (every >= '1 second'),
    CONSTRAINT schedules_bounds CHECK (every <= '36500 days' AND timeout > '0' AND timeout <= '36500 days')
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.schedules IS
    'Jobs that are added regularly. next_run_at is the fence: the worker that fires changes it, in the transaction that adds the jobs.';
COMMENT ON COLUMN howdah.schedules.next_run_at IS
    'When it fires next; NULL if it never fires again. Without an index, because each fire would bloat it.';
COMMENT ON COLUMN howdah.schedules.next_run_known IS
    'False if SQL gave no next_run_at: then that is the time after which a worker still has to compute the first run.';
COMMENT ON COLUMN howdah.schedules.declared_at IS
    'When a worker whose code has this schedule (@queue.periodic) last started; NULL if a call made the schedule.';
