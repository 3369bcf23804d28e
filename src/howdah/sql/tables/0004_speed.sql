-- Speed.

-- A claim writes a new version of a job, and enters it beside the old one: where a page has room for that, it is not split.
ALTER INDEX howdah.live_pkey SET (fillfactor = 50);

-- These have one argument more.
DROP FUNCTION IF EXISTS howdah.wake(varchar[]);
DROP FUNCTION IF EXISTS howdah.enqueue(
    varchar, jsonb, int, timestamptz, interval, int, text, uuid, boolean, interval, timestamptz, jsonb, jsonb, uuid, uuid, interval
);
