-- What a page of the dashboard may do: read, for so long at most, with the rights of the role if there is one.
SELECT
    pg_catalog.set_config('statement_timeout', %(timeout)s, true),
    pg_catalog.set_config('lock_timeout', '1s', true),
    pg_catalog.set_config('jit', 'off', true),
    pg_catalog.set_config('transaction_read_only', 'on', true),
    CASE WHEN %(role)s::pg_catalog.text IS NOT NULL THEN pg_catalog.set_config('role', %(role)s::pg_catalog.text, true) END
