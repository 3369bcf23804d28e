-- Called before jobs are added, so that a call that is refused writes nothing. Of a type without a bound it is not called.
CREATE OR REPLACE FUNCTION howdah.make_room(
    p_job_type varchar, p_added int, p_id uuid DEFAULT NULL, p_keys text[] DEFAULT NULL, p_partly boolean DEFAULT false,
    p_except uuid[] DEFAULT '{}'
) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_max int;
    v_when_full text;
    v_backlog record;
    v_added int := p_added;
    v_excess bigint;
    -- So many would be too many even if no other job waited.
    v_over int;
    -- The jobs that the call answers with, instead of adding others, are not dropped for those that it adds.
    v_spared uuid[] := p_except;
    v_missing int;
BEGIN
    SELECT coalesce(t.max_pending, t.declared_max_pending), coalesce(t.when_full, t.declared_when_full, 'raise')
    INTO v_max, v_when_full FROM howdah.types AS t WHERE t.job_type = p_job_type;
    IF v_max IS NULL OR coalesce(p_added, 0) = 0 THEN
        RETURN 0;
    END IF;
    SELECT b.* INTO v_backlog FROM howdah.backlog_excess(p_job_type, p_added, v_max) AS b;
    v_excess := v_backlog.excess;
    IF v_excess > 0 AND num_nonnulls(p_id, p_keys) > 0 THEN
        -- What exists is not added: a call that is repeated because its reply was lost finds its job.
        v_added := CASE
            WHEN EXISTS (SELECT FROM howdah.live AS j WHERE j.id = p_id) OR howdah.has_ended(ARRAY[p_id]) IS NOT NULL THEN 0
            WHEN p_keys IS NULL THEN p_added
            ELSE (
                SELECT count(DISTINCT item.key) + count(*) FILTER (WHERE item.key IS NULL) FROM unnest(p_keys) AS item (key)
                WHERE NOT EXISTS (SELECT FROM howdah.live AS j WHERE j.job_type = p_job_type AND j.key = item.key)
            )
        END;
        v_excess := CASE WHEN v_added = 0 THEN 0 ELSE v_excess - p_added + v_added END;
    END IF;
    IF v_excess <= 0 THEN
        v_over := 0;
    ELSIF v_when_full = 'drop_oldest' THEN
        v_over := greatest(v_added - v_max, 0);
        IF v_excess > v_over THEN
            IF cardinality(array_remove(p_keys, NULL)) > 0 THEN
                v_spared := v_spared || ARRAY(SELECT j.id FROM howdah.live AS j WHERE j.job_type = p_job_type AND j.key = ANY (p_keys));
            END IF;
            v_missing := v_excess - v_over - howdah.drop_oldest(p_job_type, (v_excess - v_over)::int, v_spared);
            -- If hardly any others wait, the oldest of all go when the call has written its data.
            IF v_missing > 0 AND v_spared <> '{}' THEN
                v_over := v_over + least(v_missing, (
                    SELECT count(*) FROM howdah.live AS j
                    WHERE j.id = ANY (v_spared) AND j.status = 'pending' AND j.attempts < j.max_attempts
                ));
            END IF;
        END IF;
    ELSIF p_partly THEN
        v_over := least(v_excess, v_added);
    ELSE
        RAISE EXCEPTION 'there is no room for % of type %: % wait, and at most % may',
            CASE WHEN v_added = 1 THEN 'another job' ELSE v_added || ' more jobs' END, p_job_type, v_backlog.pending, v_max USING
            ERRCODE = 'JQ022',
            DETAIL = jsonb_build_object(
                'job_type', p_job_type, 'max_pending', v_max, 'pending', v_backlog.pending, 'when_full', v_when_full,
                'fits', v_added <= v_max, 'counted', v_backlog.counted
            ),
            HINT = CASE
                WHEN v_added > v_max THEN 'So many at once never have room: enqueue fewer at a time (chunk_size=).'
                WHEN v_when_full = 'wait' THEN
                    'Its producers wait for room, which is not possible within a transaction (conn=). End the transaction, and enqueue it again later.'
                ELSE 'Enqueue it again later, or run more workers. An operator can change the bound: set_max_pending.'
            END;
    END IF;
    PERFORM nextval('howdah.backlog_counter') FROM generate_series(1, CASE WHEN p_partly THEN v_added - v_over ELSE v_added END);
    RETURN v_over;
END
$$;
COMMENT ON FUNCTION howdah.make_room IS
    'Part of adding jobs to a type with a bound. If too many would wait, it drops the oldest ones, or raises SQLSTATE JQ022, as the type says.'
    ' Returns how many of the new jobs are still too many: they are to be dropped when they have been added. p_partly: to be left out, and'
    ' nothing is raised. p_except: jobs that are not dropped. Internal.';
REVOKE ALL ON FUNCTION howdah.make_room FROM PUBLIC;
