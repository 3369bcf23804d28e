-- The suite's own record of what becomes of jobs and workers. Howdah knows nothing of it and cannot leave anything out:
-- each line is written by the transaction that it tells of.
CREATE SCHEMA audit;

CREATE TABLE audit.transitions (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id uuid NOT NULL,
    before text,
    after text,
    token_before bigint,
    token bigint,
    holder text,
    worker text,
    deadline_at timestamptz,
    lease_until timestamptz,
    cancel_requested_at timestamptz
);

CREATE TABLE audit.farewells (
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    worker text NOT NULL,
    silent_for interval NOT NULL,
    lease interval NOT NULL,
    replaced boolean NOT NULL
);

CREATE FUNCTION audit.note_live() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO audit.transitions (id, after, token) VALUES (NEW.id, NEW.status, NEW.token);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO audit.transitions (id, before, token_before, holder, deadline_at, lease_until, cancel_requested_at)
        VALUES (OLD.id, OLD.status, OLD.token, OLD.worker_id, OLD.deadline_at, OLD.lease_until, OLD.cancel_requested_at);
    ELSE
        INSERT INTO audit.transitions (
            id, before, after, token_before, token, holder, worker, deadline_at, lease_until, cancel_requested_at
        ) VALUES (
            OLD.id, OLD.status, NEW.status, OLD.token, NEW.token, OLD.worker_id, NEW.worker_id,
            OLD.deadline_at, OLD.lease_until, OLD.cancel_requested_at
        );
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION audit.note_archive() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO audit.transitions (id, after, token, worker) VALUES (NEW.id, NEW.status, NEW.token, NEW.worker_id);
    ELSE
        INSERT INTO audit.transitions (id, before, token_before) VALUES (OLD.id, OLD.status, OLD.token);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION audit.note_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO audit.farewells (worker, silent_for, lease, replaced)
    VALUES (OLD.worker_id, clock_timestamp() - OLD.heartbeat_at, OLD.lease, TG_OP = 'UPDATE' AND NEW.pid IS DISTINCT FROM OLD.pid);
    RETURN NULL;
END
$$;

CREATE FUNCTION audit.follow_segments() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS c WHERE c.objid = to_regclass('howdah.archive_open')) THEN
        CREATE TRIGGER audit_ends AFTER INSERT OR DELETE ON howdah.archive_open
            FOR EACH ROW EXECUTE FUNCTION audit.note_archive();
    END IF;
END
$$;

CREATE TRIGGER audit_changes AFTER INSERT OR DELETE ON howdah.live FOR EACH ROW EXECUTE FUNCTION audit.note_live();
CREATE TRIGGER audit_moves AFTER UPDATE ON howdah.live FOR EACH ROW
    WHEN (OLD.status <> NEW.status OR OLD.token <> NEW.token) EXECUTE FUNCTION audit.note_live();
CREATE TRIGGER audit_ends AFTER INSERT OR DELETE ON howdah.archive_open FOR EACH ROW EXECUTE FUNCTION audit.note_archive();
CREATE TRIGGER audit_farewells AFTER DELETE ON howdah.workers FOR EACH ROW EXECUTE FUNCTION audit.note_worker();
CREATE TRIGGER audit_replacements AFTER UPDATE ON howdah.workers FOR EACH ROW
    WHEN (OLD.incarnation <> NEW.incarnation) EXECUTE FUNCTION audit.note_worker();
CREATE EVENT TRIGGER audit_segments ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION audit.follow_segments();
