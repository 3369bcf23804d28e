-- A type that becomes ordered waits for nothing: see reorder.
ALTER TABLE howdah.types ADD COLUMN settling text[];
COMMENT ON COLUMN howdah.types.settling IS
    'Transactions from before the type became ordered, or ceased to be, which may still add jobs as it was then. Empty: not looked for yet.'
    ' NULL: there are none.';
CREATE INDEX types_settling ON howdah.types (job_type) WHERE settling IS NOT NULL;
