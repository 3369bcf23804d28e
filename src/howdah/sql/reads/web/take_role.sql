-- An action has the rights of this role, until its transaction ends.
SELECT pg_catalog.set_config('role', %(role)s::pg_catalog.text, true)
