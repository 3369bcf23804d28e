-- What operators did in the dashboard.

CREATE SEQUENCE howdah.audit_counter;

CREATE TABLE howdah.audit (
    number bigint PRIMARY KEY DEFAULT nextval('howdah.audit_counter'),
    at timestamptz NOT NULL,
    visitor varchar(100) NOT NULL,
    login name NOT NULL,
    action varchar(50) NOT NULL,
    target jsonb NOT NULL DEFAULT '{}',
    jobs bigint,
    outcome varchar(500)
);
COMMENT ON TABLE howdah.audit IS
    'What was done in the dashboard, and by which visitor: see record_audit. target is the job, the type, or the filter with which jobs were selected;'
    ' jobs, how many were changed. login is the login of the dashboard.';
CREATE INDEX audit_at ON howdah.audit (at);

-- How many jobs ended, how long they had waited and ran, and how many waited, over time.

CREATE TABLE howdah.minutes (
    level smallint NOT NULL DEFAULT 0 CHECK (level BETWEEN 0 AND 3),
    at timestamptz NOT NULL,
    job_type varchar(50) NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    backlog bigint,
    waits smallint[],
    wait_jobs real[],
    runs smallint[],
    run_jobs real[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- Compressing them would cost each completion more than it saves.
ALTER TABLE howdah.minutes ALTER waits SET STORAGE EXTERNAL, ALTER runs SET STORAGE EXTERNAL;
COMMENT ON TABLE howdah.minutes IS
    'What the dashboard plots, as appended rows, so that writers never wait for one. fold_minutes merges those of a minute (level 1), later those of'
    ' ten minutes (2) and of an hour (3).';
COMMENT ON COLUMN howdah.minutes.waits IS
    'Buckets of the seconds from due to start: see bucket. In level 0, those of some jobs; in the others each bucket once, and wait_jobs has how many jobs.'
    ' runs is the same from start to end.';
COMMENT ON COLUMN howdah.minutes.backlog IS 'How many jobs waited, at most. The type is empty in a row that says only that this was measured.';
CREATE INDEX minutes_level ON howdah.minutes (level, at);
