-- Workflows: jobs that wait for jobs. All other jobs have NULL in the new columns of live, and write nothing to the new tables.

ALTER TABLE howdah.settings
    ADD COLUMN workflow_max_age interval NOT NULL DEFAULT '90 days'
        CHECK (workflow_max_age > '0' AND workflow_max_age <= '36500 days');
COMMENT ON COLUMN howdah.settings.workflow_max_age IS
    'A workflow that has not ended after this time fails. Until it ends, its ended jobs are kept.';

ALTER TABLE howdah.live ADD COLUMN node int, ADD COLUMN place int, ADD COLUMN inputs boolean;
ALTER TABLE howdah.archive ADD COLUMN node int, ADD COLUMN place int;
COMMENT ON COLUMN howdah.live.node IS
    'The node of its workflow in which the job counts. NULL: it belongs to none, or was retried after its node had ended.';
COMMENT ON COLUMN howdah.live.place IS 'Its index within the node, from 0. A job that another one has spawned has a negative number.';
COMMENT ON COLUMN howdah.live.inputs IS 'Results of other jobs are among its arguments: see node_inputs. NULL: none are.';

CREATE TABLE howdah.workflows (
    id uuid PRIMARY KEY,
    name varchar(100) NOT NULL,
    key text,
    status varchar(20) NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    data jsonb,
    result_node int,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    deadline_at timestamptz,
    expires_at timestamptz NOT NULL,
    cancel_requested_at timestamptz,
    cancel_reason text,
    cancel_all boolean NOT NULL DEFAULT false,
    error text,
    meta jsonb
) WITH (fillfactor = 80);
COMMENT ON TABLE howdah.workflows IS 'Graphs of jobs. The nodes are in workflow_nodes, the jobs in live and archive.';
COMMENT ON COLUMN howdah.workflows.result_node IS 'The only node without children: its result is that of the workflow. NULL: there are several.';
COMMENT ON COLUMN howdah.workflows.deadline_at IS 'If it has not ended by then, it fails, and its jobs are cancelled.';
COMMENT ON COLUMN howdah.workflows.expires_at IS 'As deadline_at, by the maximum age.';
CREATE UNIQUE INDEX workflows_key ON howdah.workflows (name, key) WHERE key IS NOT NULL;
CREATE INDEX workflows_running ON howdah.workflows (least(deadline_at, expires_at)) WHERE finished_at IS NULL;
CREATE INDEX workflows_finished ON howdah.workflows (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE howdah.workflow_nodes (
    workflow_id uuid NOT NULL,
    node int NOT NULL,
    name varchar(100) NOT NULL,
    kind varchar(10) NOT NULL CHECK (kind IN ('job', 'group', 'map', 'end')),
    when_ varchar(10) NOT NULL DEFAULT 'success' CHECK (when_ IN ('success', 'always', 'failure')),
    state varchar(10) NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'open', 'ended')),
    outcome varchar(10) CHECK (outcome IN ('completed', 'failed', 'cancelled', 'skipped')),
    step varchar(10) CHECK (step IN ('count', 'pass', 'release', 'skip', 'cancel', 'expand')),
    step_from int NOT NULL DEFAULT 0,
    waits int NOT NULL DEFAULT 0,
    failed_parents int NOT NULL DEFAULT 0,
    skipped_parents int NOT NULL DEFAULT 0,
    open_stripes int NOT NULL DEFAULT 0,
    job_type varchar(50),
    first_id uuid,
    jobs int NOT NULL DEFAULT 0,
    inputs jsonb,
    items jsonb,
    template jsonb,
    options jsonb,
    expanded_to int,
    opened_at timestamptz,
    ended_at timestamptz,
    error text,
    PRIMARY KEY (workflow_id, node)
) WITH (fillfactor = 70);
COMMENT ON TABLE howdah.workflow_nodes IS
    'The nodes of workflows: each is one job or many. Node 0 is the end of its workflow, and waits for all nodes without children.';
COMMENT ON COLUMN howdah.workflow_nodes.step IS
    'What is to be done for it: look whether it has ended (count), tell its children that it has (pass), make its jobs due (release), cancel'
    ' jobs (skip: nothing needs them; cancel: the workflow was cancelled), or add the jobs of a map (expand). See advance_workflow.';
COMMENT ON COLUMN howdah.workflow_nodes.step_from IS 'The place of the first job that the step has not done.';
COMMENT ON COLUMN howdah.workflow_nodes.waits IS 'How many parents have not ended.';
COMMENT ON COLUMN howdah.workflow_nodes.open_stripes IS 'How many stripes of workflow_counts have jobs that have not ended.';
COMMENT ON COLUMN howdah.workflow_nodes.first_id IS 'The id of its first job. Those of the others follow: see member_id.';
COMMENT ON COLUMN howdah.workflow_nodes.inputs IS 'Which arguments are results of which nodes: a list of {parameter, list, sources: [{node, path}]}.';
COMMENT ON COLUMN howdah.workflow_nodes.items IS 'Of a map: {parameter, node, path}, the argument and the list of its values.';
COMMENT ON COLUMN howdah.workflow_nodes.template IS 'Of a map: the other arguments of its jobs, in the form in which data is stored.';
COMMENT ON COLUMN howdah.workflow_nodes.expanded_to IS 'Of a map: how many of its jobs were added.';
CREATE UNIQUE INDEX workflow_nodes_name ON howdah.workflow_nodes (workflow_id, name);
CREATE INDEX workflow_nodes_step ON howdah.workflow_nodes (workflow_id, node) WHERE step IS NOT NULL;

CREATE TABLE howdah.workflow_edges (
    workflow_id uuid NOT NULL,
    parent int NOT NULL,
    child int NOT NULL,
    passed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (workflow_id, parent, child)
) WITH (fillfactor = 80);
COMMENT ON TABLE howdah.workflow_edges IS 'Which node waits for which. passed: the child knows that the parent has ended.';
CREATE INDEX workflow_edges_child ON howdah.workflow_edges (workflow_id, child);

CREATE TABLE howdah.workflow_counts (
    workflow_id uuid NOT NULL,
    node int NOT NULL,
    stripe int NOT NULL,
    remaining int NOT NULL DEFAULT 0,
    completed int NOT NULL DEFAULT 0,
    failed int NOT NULL DEFAULT 0,
    cancelled int NOT NULL DEFAULT 0,
    PRIMARY KEY (workflow_id, node, stripe)
) WITH (fillfactor = 50);
COMMENT ON TABLE howdah.workflow_counts IS
    'How many jobs of each node have not ended, and how the others have, in stripes (see stripe_of). The stripes of node 0 have the sums of the whole'
    ' workflow; one may be negative.';

CREATE SEQUENCE howdah.workflow_delta_counter CACHE 32;
CREATE TABLE howdah.workflow_deltas (
    workflow_id uuid NOT NULL,
    no bigint NOT NULL DEFAULT nextval('howdah.workflow_delta_counter'),
    node int NOT NULL,
    stripe int NOT NULL,
    added int NOT NULL DEFAULT 0,
    completed int NOT NULL DEFAULT 0,
    failed int NOT NULL DEFAULT 0,
    cancelled int NOT NULL DEFAULT 0,
    PRIMARY KEY (workflow_id, no)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE howdah.workflow_deltas IS
    'Changes of workflow_counts that are not in it yet. A transaction that ends jobs only adds rows here, so it locks none that others need until'
    ' its commit: see fold_at_commit.';

CREATE TABLE howdah.workflow_spawned (
    workflow_id uuid NOT NULL,
    node int NOT NULL,
    first_id uuid NOT NULL,
    jobs int NOT NULL,
    parent_id uuid NOT NULL,
    PRIMARY KEY (workflow_id, node, first_id)
);
COMMENT ON TABLE howdah.workflow_spawned IS 'Jobs that were added by job parent_id while it ran. They count in its node, and have no place in its result.';

CREATE TYPE howdah.node_options AS (
    priority int, delay interval, run_at timestamptz, max_attempts int, timeout interval, expires_at timestamptz, expires_in interval,
    retry_policy jsonb, meta jsonb, cost int, flow_key text
);
COMMENT ON TYPE howdah.node_options IS 'The options of the jobs of a node: workflow_nodes.options.';
-- To find the node of a job that is gone.
CREATE INDEX workflow_nodes_first_id ON howdah.workflow_nodes (first_id) WHERE first_id IS NOT NULL;
CREATE INDEX workflow_spawned_first_id ON howdah.workflow_spawned (first_id);
