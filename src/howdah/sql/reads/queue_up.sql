-- The keys of one call are sorted, but not those of several: such bulks of a type go one after the other, or two of them would
-- deadlock. See enqueue_many.
SELECT pg_catalog.pg_advisory_xact_lock('howdah.live'::regclass::oid::int, 96 + abs(hashtext(%(job_type)s::varchar) %% 32))
