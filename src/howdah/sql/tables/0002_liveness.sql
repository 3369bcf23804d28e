-- Liveness by generations and elapsed time. A clock that goes back gives a later claim an earlier stamp, so no order of stamps may
-- decide which life of a worker a claim is of.

CREATE SEQUENCE howdah.worker_generations;
ALTER TABLE howdah.workers ADD COLUMN generation bigint NOT NULL DEFAULT nextval('howdah.worker_generations');
COMMENT ON COLUMN howdah.workers.generation IS 'A new one for each registration. It is the part of the worker''s name that its claims keep.';
ALTER TABLE howdah.live ADD COLUMN generation bigint;
COMMENT ON COLUMN howdah.live.generation IS
    'Of the registration that claimed the job. NULL where the holder is not registered, and for claims from before this column.';

CREATE TABLE howdah.clock_mark (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    latest timestamptz NOT NULL
);
COMMENT ON TABLE howdah.clock_mark IS 'The time of the last sweep: a clock that shows less has gone back. See follow_clock.';
INSERT INTO howdah.clock_mark (latest) VALUES ('-infinity');
