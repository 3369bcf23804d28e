-- Unique jobs. A job that is not unique has NULL in unique_key, and no row in uniques.

ALTER TABLE howdah.live ADD COLUMN unique_key text;
COMMENT ON COLUMN howdah.live.unique_key IS
    'What jobs of the type that must not exist twice have in common: a hash of their arguments, or key: and the key that was given. See enqueue_unique.';
ALTER TABLE howdah.archive ADD COLUMN unique_key text;
ALTER TABLE howdah.types ADD COLUMN unique_rule jsonb;
COMMENT ON COLUMN howdah.types.unique_rule IS
    'The rule for enqueue_unique where a call has none. enqueue, enqueue_many, schedules and plain INSERTs do not use it.';
CREATE INDEX live_unique ON howdah.live (job_type, unique_key) WHERE unique_key IS NOT NULL;

CREATE TABLE howdah.uniques (
    job_type varchar(50) NOT NULL,
    key text NOT NULL,
    job_id uuid NOT NULL,
    states varchar(20)[] NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (job_type, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE howdah.uniques IS
    'One row for each unique key in use. It is the lock for all calls that may add a job of this key; whether a job is in the way is decided'
    ' by the jobs themselves. The sweep removes it when no live job has the key, and its window has passed: see prune_uniques.';
COMMENT ON COLUMN howdah.uniques.job_id IS 'The job of this key that was added, or retried, last: of ended jobs, only this one can be in the way.';
COMMENT ON COLUMN howdah.uniques.states IS 'The states of the rule that was used last; retry uses them.';
COMMENT ON COLUMN howdah.uniques.until IS 'The row is kept until then, at least.';
CREATE INDEX uniques_until ON howdah.uniques (until);
