CREATE OR REPLACE FUNCTION howdah.flow_due_from(p_turn howdah.flow_turn, p_priority int) RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
RETURN CASE
    WHEN p_turn.priority = p_priority
        AND extract(epoch FROM clock_timestamp()) - p_turn.looked_at BETWEEN 0 AND greatest(0.2, p_turn.look_cost * 9)
    THEN coalesce(p_turn.due_from, '-infinity')
    ELSE '-infinity'
END;
COMMENT ON FUNCTION howdah.flow_due_from IS
    'The time before which no job of this priority was due any more when this session last looked; -infinity if it is time to look again. Part of'
    ' claim.';
REVOKE ALL ON FUNCTION howdah.flow_due_from FROM PUBLIC;
