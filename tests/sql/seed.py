"""The statements of the seed, to the letter: what plain SQL clients in any language send."""

from __future__ import annotations

INSERT = "INSERT INTO jobs (job_type) VALUES ($1)"

CLAIM = "SELECT * FROM claim_job_batch($1, $2, $3)"

COMPLETE = """
UPDATE jobs
SET status = 'completed',
progress = 100,
completed_at = NOW()
WHERE id = $1"""

FAIL = """
UPDATE jobs
SET status = CASE
WHEN attempts >= max_attempts THEN 'failed'
ELSE 'pending'
END,
last_error = $2,
worker_id = NULL,
claimed_at = NULL
WHERE id = $1"""

RECOVER_STALE_JOBS = """
UPDATE jobs
SET status = 'pending',
worker_id = NULL,
claimed_at = NULL
WHERE status IN ('claimed', 'running')
AND claimed_at < NOW() - $1::interval
AND attempts < max_attempts"""

# The body of the seed's own claim_job_batch, as a client that does without the function would send it.
OWN_CLAIM = """
WITH claimable AS (
SELECT id
FROM jobs
WHERE status = 'pending'
AND job_type = ANY($2)
AND attempts < max_attempts
ORDER BY priority DESC, created_at ASC
LIMIT $3
FOR UPDATE SKIP LOCKED
),
claimed AS (
UPDATE jobs
SET status = 'claimed',
worker_id = $1,
claimed_at = NOW(),
attempts = attempts + 1
WHERE id IN (SELECT id FROM claimable)
RETURNING *
)
SELECT * FROM claimed"""

SELECT_FOR_UPDATE = """
SELECT id
FROM jobs
WHERE status = 'pending'
AND job_type = ANY($1)
ORDER BY priority DESC, created_at ASC
LIMIT $2
FOR UPDATE SKIP LOCKED"""

CREATE_TABLE = """
CREATE TABLE jobs (
id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
job_type VARCHAR(50) NOT NULL,
priority INT NOT NULL DEFAULT 100,
status VARCHAR(20) NOT NULL DEFAULT 'pending',
data JSONB NOT NULL DEFAULT '{}',
progress INT DEFAULT 0,
current_stage VARCHAR(100),
events_count INT DEFAULT 0,
worker_id VARCHAR(100),
claimed_at TIMESTAMPTZ,
created_at TIMESTAMPTZ DEFAULT NOW(),
started_at TIMESTAMPTZ,
completed_at TIMESTAMPTZ,
attempts INT DEFAULT 0,
max_attempts INT DEFAULT 3,
last_error TEXT,
CONSTRAINT valid_status CHECK (
status IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled')
)
);
CREATE INDEX idx_jobs_claimable ON jobs (priority DESC, created_at ASC)
WHERE status = 'pending';
CREATE INDEX idx_jobs_worker ON jobs (worker_id)
WHERE status IN ('claimed', 'running');
CREATE OR REPLACE FUNCTION claim_job_batch(
p_worker_id VARCHAR(100),
p_job_types VARCHAR(50)[],
p_batch_size INT DEFAULT 10
) RETURNS SETOF jobs AS $$
BEGIN
RETURN QUERY SELECT * FROM jobs LIMIT 0;
END;
$$ LANGUAGE plpgsql;
"""

COLUMNS = (
    ("id", "uuid"),
    ("job_type", "character varying(50)"),
    ("priority", "integer"),
    ("status", "character varying(20)"),
    ("data", "jsonb"),
    ("progress", "integer"),
    ("current_stage", "character varying(100)"),
    ("events_count", "integer"),
    ("worker_id", "character varying(100)"),
    ("claimed_at", "timestamp with time zone"),
    ("created_at", "timestamp with time zone"),
    ("started_at", "timestamp with time zone"),
    ("completed_at", "timestamp with time zone"),
    ("attempts", "integer"),
    ("max_attempts", "integer"),
    ("last_error", "text"),
)
