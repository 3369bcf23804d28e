-- The rights of each role. A function that is not listed here is for the owner alone: it is internal, or for administrators.

-- Revokes what was granted before, by hand or by another version. Grants to other roles stay, and so do those on objects that belong to
-- another role than the schema does.
DO $$
DECLARE
    v_change text;
BEGIN
    FOR v_change IN
        SELECT DISTINCT format('REVOKE ALL ON %s FROM %s', granted.what, coalesce(g.role::text, 'PUBLIC'))
        FROM (
            SELECT format('SCHEMA %I', n.nspname) AS what, n.nspacl AS acl
            FROM pg_catalog.pg_namespace AS n WHERE n.oid = 'howdah'::regnamespace
            UNION ALL
            SELECT format('%s %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass), c.relacl
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspowner = c.relowner
            WHERE n.oid = 'howdah'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')
            UNION ALL
            SELECT format('TABLE %s', c.oid::regclass), a.attacl
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspowner = c.relowner
            JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
            WHERE n.oid = 'howdah'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND a.attacl IS NOT NULL
            UNION ALL
            SELECT format('ROUTINE %s', p.oid::regprocedure), p.proacl
            FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace AND n.nspowner = p.proowner
            WHERE n.oid = 'howdah'::regnamespace
        ) AS granted
        CROSS JOIN LATERAL aclexplode(granted.acl) AS entry
        JOIN (
            VALUES
                (0::oid, NULL), (to_regrole('howdah_producer'), to_regrole('howdah_producer')),
                (to_regrole('howdah_worker'), to_regrole('howdah_worker')), (to_regrole('howdah_viewer'), to_regrole('howdah_viewer')),
                (to_regrole('howdah_operator'), to_regrole('howdah_operator'))
        ) AS g (grantee, role) ON g.grantee = entry.grantee
    LOOP
        EXECUTE v_change;
    END LOOP;
END
$$;

-- All roles find the schema, and may read its version.
GRANT USAGE ON SCHEMA howdah TO howdah_producer, howdah_worker, howdah_viewer, howdah_operator;
GRANT SELECT ON howdah.schema_version TO howdah_producer, howdah_worker, howdah_viewer, howdah_operator;

-- To add jobs. The column status is left out: a producer must not end jobs.
GRANT EXECUTE ON FUNCTION
    howdah.enqueue, howdah.enqueue_each, howdah.enqueue_many, howdah.enqueue_unique, howdah.lock_type_for_bulk, howdah.has_room,
    howdah.signal,
    howdah.enqueue_workflow, howdah.add_nodes, howdah.add_node_jobs, howdah.start_workflow
TO howdah_producer, howdah_worker;
GRANT INSERT (id, job_type, priority, data, created_at, max_attempts) ON howdah.jobs TO howdah_producer, howdah_worker;

-- To run them.
GRANT EXECUTE ON FUNCTION
    howdah.cancel_held,
    howdah.check_held,
    howdah.checkpoint,
    howdah.claim,
    howdah.claim_job_batch,
    howdah.complete,
    howdah.crash,
    howdah.declare_schedule,
    howdah.declare_type,
    howdah.declare_types,
    howdah.release_unknown,
    howdah.due_schedules,
    howdah.fail,
    howdah.add_sleeper,
    howdah.fire_schedule,
    howdah.heartbeat,
    howdah.is_held,
    howdah.unregister_worker,
    howdah.next_due,
    howdah.next_fire,
    howdah.skip_locked,
    howdah.progress,
    howdah.record_events,
    howdah.record_step,
    howdah.register_worker,
    howdah.release,
    howdah.sleep_until,
    howdah.snooze,
    howdah.start,
    howdah.steps_of,
    howdah.wait_signal,
    howdah.remove_sleeper,
    howdah.remove_sleeper,
    howdah.maps_to_expand,
    howdah.expand_map,
    howdah.fail_map,
    howdah.node_inputs,
    howdah.node_results,
    howdah.spawn
TO howdah_worker;

-- To monitor, without the data of jobs: see the views.
GRANT SELECT (
    id, job_type, priority, status, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
    completed_at, attempts, max_attempts
) ON howdah.jobs TO howdah_viewer, howdah_operator;
GRANT SELECT ON
    howdah.job_details, howdah.live_jobs, howdah.event_details, howdah.schedule_details, howdah.limits, howdah.backlogs, howdah.step_details,
    howdah.workflow_details, howdah.node_details,
    howdah.types, howdah.workers, howdah.settings, howdah.archive_counts, howdah.segments, howdah.minutes, howdah.audit_details
TO howdah_viewer, howdah_operator;
GRANT SELECT ON SEQUENCE howdah.event_counter TO howdah_viewer, howdah_operator;
GRANT EXECUTE ON FUNCTION
    howdah.timestamp_in, howdah.queue_position, howdah.read_events, howdah.add_watcher, howdah.remove_watcher, howdah.stream_position,
    howdah.count_selected, howdah.wait_in_words, howdah.live_counts, howdah.workflow_of, howdah.signal_counts
TO howdah_viewer, howdah_operator;

-- To operate.
GRANT EXECUTE ON FUNCTION
    howdah.cancel,
    howdah.change_selected,
    howdah.delete_jobs,
    howdah.delete_schedule,
    howdah.pause_schedule,
    howdah.pause_key,
    howdah.pause_type,
    howdah.record_audit,
    howdah.reprioritise,
    howdah.reschedule,
    howdah.resume_schedule,
    howdah.resume_key,
    howdah.resume_type,
    howdah.retry,
    howdah.run_schedule,
    howdah.set_limit,
    howdah.set_max_pending,
    howdah.set_rate,
    howdah.set_weight,
    howdah.signal,
    howdah.cancel_workflow,
    howdah.retry_workflow
TO howdah_operator;
GRANT UPDATE (archive_retention, cancel_grace, max_crashes, max_interruptions, max_payload_bytes, workflow_max_age)
    ON howdah.settings TO howdah_operator;

-- For several of them.
GRANT EXECUTE ON FUNCTION howdah.channel, howdah.clock, howdah.lease_clock TO howdah_worker, howdah_viewer, howdah_operator;
-- The health check of a container uses the login of its worker.
GRANT SELECT ON howdah.workers TO howdah_worker;
GRANT EXECUTE ON FUNCTION
    howdah.compact_counts, howdah.prune, howdah.recover, howdah.recover_stale_jobs, howdah.rotate, howdah.schedule,
    howdah.bound_segments, howdah.advance_workflows
TO howdah_worker, howdah_operator;
