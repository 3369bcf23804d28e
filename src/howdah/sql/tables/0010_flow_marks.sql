-- Where the order of a key goes on. While an old transaction is open, the index keeps an entry for each job that was ever in the order, and the
-- search for the first one would pass all of them.

ALTER TABLE howdah.live ADD COLUMN placed_by xid8;
COMMENT ON COLUMN howdah.live.placed_by IS
    'Of a pending job in an order: the transaction that gave it its place, by which a job is found that was committed late. See flow_head.';
CREATE INDEX live_flow_placed ON howdah.live (job_type, flow_key, placed_by, first_due_at)
    WHERE placed_by IS NOT NULL AND status = 'pending';

CREATE TYPE howdah.flow_mark AS (priority int, first_due_at timestamptz, id uuid, xmax xid8, open xid8[]);
COMMENT ON TYPE howdah.flow_mark IS
    'A job that was the first one pending of its key and priority, and the snapshot that showed it: transactions from xmax on and those in open'
    ' may have added jobs before it since.';
ALTER TABLE howdah.flow_keys ADD COLUMN mark howdah.flow_mark;
COMMENT ON COLUMN howdah.flow_keys.mark IS 'Where the search for the next job of its order begins: see flow_head.';
