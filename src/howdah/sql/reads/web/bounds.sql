-- What a page of the dashboard may do: read, for so long at most, with the rights of the role if there is one.
SELECT
    pg_catalog.set_config('statement_timeout', %(timeout)s, true),
    pg_catalog.set_config('lock_timeout', '1s', true),
    pg_catalog.set_config('jit', 'off', true),
    -- A filter that is not given must not be planned as if it might be, and no statistics make a page read a large table.
    pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true),
    pg_catalog.set_config('enable_seqscan', 'off', true),
    pg_catalog.set_config('transaction_read_only', 'on', true),
    CASE WHEN %(role)s::pg_catalog.text IS NOT NULL THEN pg_catalog.set_config('role', %(role)s::pg_catalog.text, true) END
