-- Functions that an earlier version may have installed with other parameters. CREATE OR REPLACE refuses other names of parameters. With
-- other types it would leave them beside today's, and calls by name would be ambiguous. Clients of the earlier version call today's: new parameters have defaults.
DROP FUNCTION IF EXISTS howdah.claim(
    varchar, varchar[], int, int, varchar[], int[], timestamptz[], uuid[], interval, uuid, int[], boolean, boolean, varchar[]
);
DROP FUNCTION IF EXISTS howdah.claim_oldest(varchar[], int[], varchar[], int, boolean);
DROP FUNCTION IF EXISTS howdah.claim_ordered(varchar, boolean);
DROP FUNCTION IF EXISTS howdah.ordered_heads(varchar[]);
DROP FUNCTION IF EXISTS howdah.apply_order(varchar, boolean);
DROP FUNCTION IF EXISTS howdah.with_type_defaults(varchar, int, timestamptz, interval, int, interval, timestamptz, interval, jsonb);
DROP FUNCTION IF EXISTS howdah.check_keys(text[]);
DROP FUNCTION IF EXISTS howdah.enqueue(
    varchar, jsonb, int, timestamptz, interval, int, text, uuid, interval, timestamptz, jsonb, jsonb, uuid, uuid, interval, boolean
);
DROP FUNCTION IF EXISTS howdah.enqueue_each(
    varchar[], jsonb[], uuid[], int[], timestamptz[], interval[], int[], interval[], timestamptz[], interval[], jsonb[], jsonb[], boolean
);
DROP FUNCTION IF EXISTS howdah.enqueue_many(
    varchar, jsonb[], text[], int, timestamptz, interval, int, interval, timestamptz, jsonb, jsonb, boolean, interval
);
DROP FUNCTION IF EXISTS howdah.declare_type(varchar, boolean, boolean, int, int, interval, interval, jsonb, int, boolean);
DROP FUNCTION IF EXISTS howdah.fail(uuid[], bigint[], text[], text[], timestamptz[], boolean[], interval[]);
DROP FUNCTION IF EXISTS howdah.end_attempt(text, uuid[], bigint[], text[], text[], timestamptz[], boolean[]);
DROP FUNCTION IF EXISTS howdah.attempt_outcome(howdah.live, text, text, text, timestamptz, boolean);
DROP FUNCTION IF EXISTS howdah.archive_jobs(uuid[], varchar[], text[], boolean, text);
DROP FUNCTION IF EXISTS howdah.retry(uuid[]);
DROP FUNCTION IF EXISTS howdah.change_selected(
    text, varchar[], varchar[], text, text, text, timestamptz, boolean, uuid, int, text, int, timestamptz
);
DROP FUNCTION IF EXISTS howdah.advance_workflow(uuid, int);
DROP FUNCTION IF EXISTS howdah.heartbeat(varchar, uuid, int, interval, interval, int, jsonb);
DROP FUNCTION IF EXISTS howdah.apply_rate(varchar, text);
DROP FUNCTION IF EXISTS howdah.make_room(varchar, int, uuid, text[], boolean);
DROP FUNCTION IF EXISTS howdah.drop_oldest(varchar, int);
