-- From now on this transaction has a snapshot and an id: nothing that dies after it can be removed.
SELECT pg_catalog.pg_current_xact_id()
