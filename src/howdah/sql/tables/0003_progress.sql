-- Progress that one can watch: the record of each job, events, stalls, and the pace of workers.

ALTER TABLE howdah.live ADD COLUMN report jsonb;
ALTER TABLE howdah.archive ADD COLUMN report jsonb;
COMMENT ON COLUMN howdah.live.report IS
    'What the job has said of its progress; NULL if nothing. See next_report. seq counts its events.';

ALTER TABLE howdah.workers ADD COLUMN pace jsonb;
COMMENT ON COLUMN howdah.workers.pace IS
    'For each type that it ran lately: how many it ended in a second while there were any (per_second), and the mean seconds that'
    ' they ran (run) and had been due before (wait).';

ALTER TABLE howdah.types ADD COLUMN fail_stalled boolean NOT NULL DEFAULT false;

CREATE SEQUENCE howdah.event_counter;

CREATE TABLE howdah.events (
    n bigint NOT NULL DEFAULT nextval('howdah.event_counter'),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
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
) PARTITION BY RANGE (at);
COMMENT ON TABLE howdah.events IS
    'What happened to jobs, by the UTC day on which it did. Append-only, and kept for as long as the archive.';
COMMENT ON COLUMN howdah.events.seq IS 'Its place within the job. The job''s row is locked while it is given, so that it is also the order of commits.';
COMMENT ON COLUMN howdah.events.n IS 'Grows with seq inside of a job. Between jobs it is no order of commits: see read_events.';

CREATE INDEX events_job ON howdah.events (job_id, seq);
CREATE INDEX events_xact ON howdah.events (xact);
CREATE INDEX events_n ON howdah.events (n);

CREATE TABLE howdah.events_default PARTITION OF howdah.events DEFAULT;


-- Parameters were added to these; the old ones would stay beside the new ones, and make calls ambiguous.
DROP FUNCTION IF EXISTS howdah.progress(uuid[], bigint[], int[], text[]);
DROP FUNCTION IF EXISTS howdah.finish(uuid[], varchar[], text[]);
DROP FUNCTION IF EXISTS howdah.heartbeat(varchar, uuid, int, interval, interval, int);
DROP FUNCTION IF EXISTS howdah.declare_type(varchar, boolean, boolean, int, int, interval, interval, jsonb, int);
