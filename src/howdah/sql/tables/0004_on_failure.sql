-- A job of another type that is added when a job fails for good.

ALTER TABLE howdah.types ADD COLUMN on_failure varchar(50);
COMMENT ON COLUMN howdah.types.on_failure IS
    'The type of the job that is added in the transaction in which a job of this type fails for good: see enqueue_on_failure.';
-- Jobs of other types that fail look in here, and find it empty.
CREATE INDEX types_on_failure ON howdah.types (job_type) WHERE on_failure IS NOT NULL;
