-- Signals, timers and steps. A job that uses none of them has NULL in has_steps, and no row here.

ALTER TABLE howdah.live ADD COLUMN has_steps boolean;
COMMENT ON COLUMN howdah.live.has_steps IS 'True if it has rows in steps: then its next attempt reads them.';

CREATE TABLE howdah.steps (
    job_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind varchar(6) NOT NULL CHECK (kind IN ('step', 'signal', 'sleep')),
    state varchar(9) NOT NULL CHECK (state IN ('done', 'waiting', 'timed out')),
    result jsonb,
    attempt int NOT NULL,
    token bigint NOT NULL,
    begun_at timestamptz NOT NULL,
    done_at timestamptz,
    signal varchar(100),
    key text COLLATE "C",
    until timestamptz,
    held_back boolean,
    PRIMARY KEY (job_id, name),
    CONSTRAINT steps_signal CHECK ((kind = 'signal') = (signal IS NOT NULL) AND (signal IS NULL) = (key IS NULL))
);
COMMENT ON TABLE howdah.steps IS
    'What attempts of jobs have done already, and what they wait for: the next attempt goes on after it. Removed with the job.';
COMMENT ON COLUMN howdah.steps.token IS
    'The claim that recorded it. While the job waits, the token that it has then: with any other token, it does not wait any more.';
COMMENT ON COLUMN howdah.steps.key IS 'The key of the signal; empty if it has none.';
COMMENT ON COLUMN howdah.steps.until IS 'When a sleep ends, or a wait times out. Set when it begins; later attempts do not change it.';
COMMENT ON COLUMN howdah.steps.held_back IS
    'The signal has come, but another transaction had locked the job. The sweep makes it due: see release_held_back.';
-- Only those that hold one of these locks change a step that waits: see signal_channels.
CREATE INDEX steps_waiting ON howdah.steps (signal, key) WHERE state = 'waiting' AND signal IS NOT NULL;
CREATE INDEX steps_held_back ON howdah.steps (job_id) WHERE held_back;

CREATE TABLE howdah.signal_channels (
    signal varchar(100) NOT NULL,
    key text COLLATE "C" NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (signal, key)
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.signal_channels IS
    'The lock for the signals of a name and key: those that send one and those that wait for it take turns. There is a row while a signal is kept or a'
    ' job waits.';

CREATE SEQUENCE howdah.signal_counter;
CREATE TABLE howdah.signals (
    number bigint NOT NULL DEFAULT nextval('howdah.signal_counter'),
    signal varchar(100) NOT NULL,
    key text COLLATE "C" NOT NULL,
    data jsonb,
    kept_at timestamptz NOT NULL,
    -- The only index in the order of the numbers: no plan can look for the first one of a key among all others.
    PRIMARY KEY (signal, key, number)
);
COMMENT ON TABLE howdah.signals IS
    'Signals that no job waited for when they were sent. The first wait takes the first one. The sweep removes them after settings.archive_retention.';
CREATE INDEX signals_oldest ON howdah.signals (kept_at);
