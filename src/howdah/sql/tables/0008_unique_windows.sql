-- created_at of a job is the beginning of the transaction that added it, which may be long before.

ALTER TABLE howdah.uniques ADD COLUMN added_at timestamptz;
COMMENT ON COLUMN howdah.uniques.added_at IS
    'When job_id was added: from then on it counts in a window. NULL: since its created_at, because it was retried, or by an older version.';
