-- Flow control: jobs with a key run in the key's order, within limits, and in turn with other keys. All other jobs have NULL in the new
-- columns, and are in none of the new indexes.

CREATE TYPE howdah.rate AS (jobs int, seconds float8, burst int);
COMMENT ON TYPE howdah.rate IS
    'How many jobs may start: so many in so many seconds, and burst of them at once. A bucket holds up to burst tokens, and jobs tokens are'
    ' added to it every seconds. A job takes as many as it costs.';

ALTER TABLE howdah.types
    ADD COLUMN keyed boolean NOT NULL DEFAULT false,
    ADD COLUMN per text,
    ADD COLUMN order_skips boolean NOT NULL DEFAULT false,
    ADD COLUMN declared_limit int CHECK (declared_limit >= 1),
    ADD COLUMN type_limit int CHECK (type_limit >= 0),
    ADD COLUMN key_limit int CHECK (key_limit >= 0),
    ADD COLUMN groups text[],
    ADD COLUMN declared_rate howdah.rate,
    ADD COLUMN type_rate howdah.rate,
    ADD COLUMN key_rate howdah.rate,
    ADD COLUMN rated boolean NOT NULL DEFAULT false,
    ADD COLUMN cost int CHECK (cost BETWEEN 1 AND 1000000);
COMMENT ON COLUMN howdah.types.keyed IS 'Its jobs have flow keys, and are claimed key by key: see claim_flow.';
COMMENT ON COLUMN howdah.types.per IS 'The argument of a job that is its flow key, where the caller gives none.';
COMMENT ON COLUMN howdah.types.order_skips IS 'While a job of an ordered key waits for its retry, the next one of the key may run.';
COMMENT ON COLUMN howdah.types.declared_limit IS
    'How many jobs the handler lets run at once over all workers: of each key if the type has per, otherwise of the type.';
COMMENT ON COLUMN howdah.types.type_limit IS 'How many jobs of the type an operator lets run at once. It applies instead of declared_limit.';
COMMENT ON COLUMN howdah.types.key_limit IS 'How many jobs of each key an operator lets run at once. It applies instead of declared_limit.';
COMMENT ON COLUMN howdah.types.groups IS 'The groups to whose limits its jobs are subject, too: see flow_groups.';
COMMENT ON COLUMN howdah.types.declared_rate IS
    'How often the handler lets jobs start over all workers: of each key if the type has per, otherwise of the type.';
COMMENT ON COLUMN howdah.types.type_rate IS 'How often an operator lets jobs of the type start. It applies instead of declared_rate.';
COMMENT ON COLUMN howdah.types.key_rate IS 'How often an operator lets jobs of each key start. It applies instead of declared_rate.';
COMMENT ON COLUMN howdah.types.rated IS 'There is, or was, a rate for the type or for one of its keys. Otherwise claims look for none.';
COMMENT ON COLUMN howdah.types.cost IS 'How many tokens of a rate a job takes, where it has no cost of its own. NULL: one.';
UPDATE howdah.types SET keyed = true, settling = '{}' WHERE ordered;

CREATE TABLE howdah.flow_groups (
    name text PRIMARY KEY,
    max_running int CHECK (max_running >= 0),
    rate howdah.rate,
    full_at timestamptz
);
COMMENT ON TABLE howdah.flow_groups IS
    'Limits over several types: how many jobs of all types in a group run at once, and how often they start. The row is also its lock.';
COMMENT ON COLUMN howdah.flow_groups.full_at IS 'When the bucket of its rate is full again, if no more tokens are taken: see tokens.';

-- Apart from types, which every enqueue reads: a row that every claim changes has many versions while an old transaction is open.
CREATE TABLE howdah.flow_types (
    job_type varchar(50) PRIMARY KEY,
    full_at timestamptz,
    held_from bigint
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.flow_types IS
    'What claims of types with limits and rates note. It is written under the locks of the type and its groups: see flow_room.';
COMMENT ON COLUMN howdah.flow_types.full_at IS 'When the bucket of the type''s rate is full again, if no more tokens are taken: see tokens.';
COMMENT ON COLUMN howdah.flow_types.held_from IS 'No job of the type is held by a token below this one: see flow_keys.held_from.';

CREATE TABLE howdah.flow_keys (
    job_type varchar(50) NOT NULL,
    flow_key text COLLATE "C" NOT NULL,
    max_running int CHECK (max_running >= 0),
    weight int CHECK (weight BETWEEN 1 AND 1000),
    paused_at timestamptz,
    paused_because text,
    rests_until timestamptz,
    rate howdah.rate,
    full_at timestamptz,
    held_from bigint,
    PRIMARY KEY (job_type, flow_key)
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.flow_keys IS
    'The keys that have a limit, an order or settings of their own. The row is the lock under which the held jobs of a key are counted. Claims'
    ' add rows, and the sweep removes those of keys without jobs and settings.';
COMMENT ON COLUMN howdah.flow_keys.rests_until IS
    'Until then no job of the key can run: it is paused, the head of its order waits for its retry, or its rate is used up. Its jobs are'
    ' behind: see live.line.';
COMMENT ON COLUMN howdah.flow_keys.full_at IS 'When the bucket of its rate is full again, if no more tokens are taken: see tokens.';
COMMENT ON COLUMN howdah.flow_keys.held_from IS
    'No job of the key is held by a token below this one; NULL if that is not known. While an old transaction is open, the index keeps an entry for'
    ' each job that was ever held, and counting starts here to pass them.';
CREATE INDEX flow_keys_rest ON howdah.flow_keys (job_type, rests_until) WHERE rests_until IS NOT NULL;

ALTER TABLE howdah.live ADD COLUMN flow_key text COLLATE "C", ADD COLUMN line varchar(6), ADD COLUMN cost int;
ALTER TABLE howdah.archive ADD COLUMN flow_key text COLLATE "C", ADD COLUMN cost int;
COMMENT ON COLUMN howdah.live.cost IS 'How many tokens of a rate the job takes. NULL: as many as its type says.';
COMMENT ON COLUMN howdah.live.flow_key IS 'The key of the job within its type, for order, limits and fairness. Empty if the type has one key for all.';
COMMENT ON COLUMN howdah.live.line IS
    'Where a job with a flow key waits: ready (claims look at its key), later (it was not due), or behind (its key rests). A claim passes only'
    ' keys with a ready job and keys whose rest is over, however many others there are. NULL for a job without a flow key.';
-- Keys in turn, within a priority.
CREATE INDEX live_line ON howdah.live (job_type, priority DESC, flow_key, first_due_at)
    WHERE line = 'ready' AND status = 'pending' AND attempts < max_attempts;
CREATE INDEX live_later ON howdah.live (job_type, run_at) WHERE line = 'later' AND status = 'pending';
-- The order of each key.
CREATE INDEX live_flow ON howdah.live (job_type, flow_key, priority DESC, first_due_at, id)
    WHERE flow_key IS NOT NULL AND status = 'pending';
CREATE INDEX live_flow_held ON howdah.live (job_type, flow_key, token) WHERE flow_key IS NOT NULL AND status IN ('claimed', 'running');
-- Held jobs have no line: the condition keeps plans from taking this index to count the jobs of a key, whatever the statistics.
CREATE INDEX live_type_held ON howdah.live (job_type, token)
    WHERE flow_key IS NOT NULL AND line IS NULL AND status IN ('claimed', 'running');
DROP INDEX howdah.live_order;
-- What a session remembers of its last claim of a type with flow keys: see claim_flow.
CREATE TYPE howdah.flow_turn AS (flow_key text, priority int, due_from timestamptz, looked_at float8, look_cost float8);
-- A lane of a claim is a type without flow keys, or one with them.
ALTER TYPE howdah.lane_head RENAME ATTRIBUTE ordered TO keyed;

-- Back-pressure: a bound on how many jobs of a type wait.
ALTER TABLE howdah.types
    ADD COLUMN declared_max_pending int CHECK (declared_max_pending >= 1),
    ADD COLUMN declared_when_full text CHECK (declared_when_full IN ('raise', 'wait', 'drop_oldest')),
    ADD COLUMN max_pending int CHECK (max_pending >= 1),
    ADD COLUMN when_full text CHECK (when_full IN ('raise', 'wait', 'drop_oldest'));
COMMENT ON COLUMN howdah.types.declared_max_pending IS 'How many jobs of the type the handler lets wait. More are not enqueued: see make_room.';
COMMENT ON COLUMN howdah.types.declared_when_full IS 'What enqueueing does when so many wait: raise, wait or drop_oldest. NULL: raise.';
COMMENT ON COLUMN howdah.types.max_pending IS 'How many jobs of the type an operator lets wait. It applies instead of declared_max_pending.';
COMMENT ON COLUMN howdah.types.when_full IS 'What an operator lets enqueueing do. It applies instead of declared_when_full.';

CREATE SEQUENCE howdah.backlog_counter;
-- Unlogged, because a count is of use for a second.
CREATE UNLOGGED TABLE howdah.backlog_counts (
    job_type varchar(50) NOT NULL,
    counted_no bigint NOT NULL,
    max_pending int NOT NULL,
    pending int NOT NULL,
    counted_at timestamptz NOT NULL,
    took interval NOT NULL,
    oldest timestamptz,
    full_at timestamptz NOT NULL,
    full_took interval NOT NULL,
    PRIMARY KEY (job_type, counted_no)
);
COMMENT ON TABLE howdah.backlog_counts IS
    'How many jobs of types with a large bound waited, so that not every call has to count them: see backlog_excess. Rows are only added and'
    ' removed, never changed: no producer waits for another one that commits late.';
COMMENT ON COLUMN howdah.backlog_counts.counted_no IS
    'The value of backlog_counter at the count. Each job that is added to a type with a bound takes the next value.';
COMMENT ON COLUMN howdah.backlog_counts.oldest IS 'No job that waited was due before: the next count begins here, and skips dead entries of the index.';
COMMENT ON COLUMN howdah.backlog_counts.full_at IS 'When the last count was that did not begin at oldest.';
