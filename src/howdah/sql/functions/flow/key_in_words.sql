CREATE OR REPLACE FUNCTION howdah.key_in_words(p_job howdah.live) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN p_job.flow_key = '' THEN 'its type' WHEN howdah.may_see_keys() THEN format('its key %L', p_job.flow_key) ELSE 'its key' END
$$;
COMMENT ON FUNCTION howdah.key_in_words IS 'The flow key of a job for a message, without its name if the views redact that. Internal.';
REVOKE ALL ON FUNCTION howdah.key_in_words FROM PUBLIC;
