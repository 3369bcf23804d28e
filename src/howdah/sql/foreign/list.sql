ARRAY(SELECT e.value::pg_catalog.%(type)s FROM pg_catalog.json_array_elements_text(%(value)s::pg_catalog.text::pg_catalog.json) AS e (value))
