-- The progress of a job after one more report. All readers see these numbers, so they are computed here.
--
--   at, first      when it last and first reported, in seconds since the epoch; first: of this attempt
--   gap            the usual number of seconds between two reports, smoothed
--   stalls         when it counts as stalled, unless it reports before: after five of these gaps, and at least 30 s
--   percent        of the whole job; done, total: of the current stage
--   moved          when percent or counts were last reported; an event proves that the job runs, but is no progress
--   rate, pace     done, and percent, per second: recent reports weigh most, and those before this stage soon nothing
--   since          when this stage began
--   eta            when it will be done, at this pace
--   told           [token, number] of the last event that the claim numbered: see record_events
--   points         at most 40 of [epoch, percent, attempt]; above that, every other one is dropped, and step, the smallest distance
--                  between the points of an attempt (except for its last), becomes their new distance
CREATE OR REPLACE FUNCTION howdah.merged_progress(
    p_report jsonb,
    p_token bigint,
    p_attempt int,
    p_started_at timestamptz,
    p_now timestamptz,
    p_percent float8 DEFAULT NULL,
    p_done float8 DEFAULT NULL,
    p_total float8 DEFAULT NULL,
    p_new_stage boolean DEFAULT false
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now numeric := round(extract(epoch FROM p_now)::numeric, 3);
    -- Of this attempt: an earlier one does not show the pace of this one.
    v_before jsonb := CASE WHEN p_report -> 'token' = to_jsonb(p_token) AND p_report ? 'at' THEN p_report ELSE '{}' END;
    v_moves boolean := p_percent IS NOT NULL OR p_done IS NOT NULL OR p_total IS NOT NULL;
    v_percent numeric := coalesce(p_percent, howdah.number_in(v_before -> 'percent'), 0);
    v_gap numeric := greatest(v_now - coalesce(
        howdah.number_in(v_before -> 'at'), extract(epoch FROM p_started_at)::numeric, v_now
    ), 0);
    v_moved numeric := howdah.number_in(v_before -> 'moved');
    v_seconds numeric := v_now - v_moved;
    v_since numeric := coalesce(howdah.number_in(v_before -> 'since'), v_moved, v_now);
    v_weight numeric;
    v_rate numeric := howdah.number_in(v_before -> 'rate');
    v_pace numeric := howdah.number_in(v_before -> 'pace');
    v_lately numeric;
    v_left numeric;
    v_points jsonb := CASE WHEN jsonb_typeof(p_report -> 'points') = 'array' THEN p_report -> 'points' ELSE '[]' END;
    v_step numeric := coalesce(howdah.number_in(p_report -> 'step'), 1);
BEGIN
    v_percent := round(least(greatest(v_percent, 0), 100), 2);
    v_gap := coalesce(0.7 * howdah.number_in(v_before -> 'gap') + 0.3 * v_gap, v_gap);
    IF v_moves AND v_seconds > 0 THEN
        -- Averages over 10 s; at the beginning of a stage, over the time since it began, so that a new pace soon takes effect.
        v_weight := 1 - exp(-2 * least(v_seconds, 200) / least(20, greatest(v_now - v_since, v_seconds)));
        v_lately := (p_done::numeric - howdah.number_in(v_before -> 'done')) / v_seconds;
        v_rate := CASE WHEN v_lately >= 0 THEN coalesce(v_rate + v_weight * (v_lately - v_rate), v_lately) END;
        v_lately := (v_percent - howdah.number_in(v_before -> 'percent')) / v_seconds;
        v_pace := CASE WHEN v_lately >= 0 THEN coalesce(v_pace + v_weight * (v_lately - v_pace), v_lately) END;
    END IF;
    v_left := CASE WHEN v_percent >= 100 THEN 0 WHEN v_pace > 0 THEN (100 - v_percent) / v_pace END;

    IF v_moves THEN
        v_moved := v_now;
        -- The last point moves along until it is a step away from the one before it. No two points have the same time.
        IF v_points -> -1 -> 2 = to_jsonb(p_attempt)
            AND (v_now <= howdah.number_in(v_points -> -1 -> 0)
                OR (v_points -> -2 -> 2 = to_jsonb(p_attempt)
                    AND howdah.number_in(v_points -> -1 -> 0) - howdah.number_in(v_points -> -2 -> 0) < v_step))
        THEN
            v_points := v_points - (-1);
        END IF;
        v_points := v_points || jsonb_build_array(jsonb_build_array(v_now, v_percent, p_attempt));
        IF jsonb_array_length(v_points) > 40 THEN
            SELECT
                jsonb_agg(p.point ORDER BY p.place) FILTER (WHERE p.place % 2 = 1),
                -- Half a step less: reports at even intervals need not be punctual.
                greatest(2 * v_step, round(1.5 * (max(p.at) - min(p.at)) / nullif(count(p.at) - 1, 0), 3))
            INTO v_points, v_step
            FROM (
                SELECT e.point, e.place, CASE WHEN e.point -> 2 = to_jsonb(p_attempt) THEN howdah.number_in(e.point -> 0) END AS at
                FROM jsonb_array_elements(v_points) WITH ORDINALITY AS e (point, place)
            ) AS p;
        END IF;
    END IF;

    RETURN jsonb_strip_nulls(jsonb_build_object(
        'seq', howdah.seq_of(p_report), 'token', p_token, 'attempt', p_attempt,
        'at', v_now, 'first', coalesce(howdah.number_in(v_before -> 'first'), v_now),
        'moved', v_moved, 'since', CASE WHEN p_new_stage AND v_moves THEN v_now ELSE v_since END,
        'gap', round(v_gap, 3), 'stalls', v_now + round(greatest(5 * v_gap, 30), 3),
        'percent', v_percent,
        'done', CASE WHEN v_moves THEN p_done::numeric ELSE howdah.number_in(v_before -> 'done') END,
        'total', CASE WHEN v_moves THEN p_total::numeric ELSE howdah.number_in(v_before -> 'total') END,
        'rate', round(v_rate, 6), 'pace', round(v_pace, 9),
        -- More than ten years count as never.
        'eta', CASE WHEN v_left < 315360000 THEN greatest(round(v_moved + v_left, 3), v_now) END,
        'points', v_points, 'step', v_step, 'told', p_report -> 'told'
    ));
END
$$;
COMMENT ON FUNCTION howdah.merged_progress IS 'The progress of a job after one more report, computed from the progress before it. Internal.';
REVOKE ALL ON FUNCTION howdah.merged_progress FROM PUBLIC;
