-- What the worker needs: a worker's own view of its health, limits inside a claim, and schedules.

ALTER TABLE howdah.workers
    ADD COLUMN fresh_since timestamptz,
    ADD COLUMN last_claim_at timestamptz,
    ADD COLUMN loop_lag interval,
    ADD COLUMN leaked int;
COMMENT ON COLUMN howdah.workers.fresh_since IS
    'Since when its heartbeats have come without a gap. Who has just been out of touch itself does not judge others.';

ALTER TYPE howdah.lane_head ADD ATTRIBUTE most int;

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
    planned boolean NOT NULL DEFAULT false,
    last_run_at timestamptz,
    last_job_id uuid,
    paused_at timestamptz,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    CONSTRAINT schedules_rhythm CHECK ((cron IS NULL) <> (every IS NULL)),
    CONSTRAINT schedules_every CHECK (every >= '1 second')
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.schedules IS
    'Jobs that come again and again. next_run_at is the fence: whoever fires moves it, in the transaction that adds the jobs.';
COMMENT ON COLUMN howdah.schedules.next_run_at IS
    'When it fires next; NULL if it never does again. Without an index, so that a fire does not grow one.';
COMMENT ON COLUMN howdah.schedules.planned IS
    'False where SQL gave no next_run_at: it is then the moment after which the first fire is still to be found, by a worker.';

-- Parameters were added to these; the old ones would stay beside the new ones, and make calls ambiguous.
DROP FUNCTION IF EXISTS howdah.claim(varchar, varchar[], int, int, varchar[], int[], timestamptz[], uuid[], interval);
DROP FUNCTION IF EXISTS howdah.claim_level(howdah.lane_head[], int);
DROP FUNCTION IF EXISTS howdah.claim_ordered(varchar);
DROP FUNCTION IF EXISTS howdah.check_options(int, interval, interval, jsonb);
DROP FUNCTION IF EXISTS howdah.enqueue(
    varchar, jsonb, int, timestamptz, interval, int, text, uuid, boolean, interval, timestamptz, jsonb, jsonb, uuid, uuid
);
DROP FUNCTION IF EXISTS howdah.enqueue_many(
    varchar, jsonb[], text[], int, timestamptz, interval, int, interval, timestamptz, jsonb, jsonb, boolean
);
DROP FUNCTION IF EXISTS howdah.heartbeat(varchar, uuid, int);
DROP FUNCTION IF EXISTS howdah.recover(int);
DROP FUNCTION IF EXISTS howdah.register_worker(varchar, uuid, interval, varchar[], text, int, text, int, jsonb);
