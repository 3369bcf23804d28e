-- Speed.

-- A claim writes a new version of a job, and enters it beside the old one: where a page has room for that, it is not split.
ALTER INDEX howdah.live_pkey SET (fillfactor = 50);
