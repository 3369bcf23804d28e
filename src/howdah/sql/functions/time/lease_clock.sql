CREATE OR REPLACE FUNCTION howdah.lease_clock() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN howdah.clock() + (clock_timestamp() - now());
COMMENT ON FUNCTION howdah.lease_clock IS
    'The clock for leases and heartbeats: it advances within a transaction, so that a stalled one cannot write a heartbeat in the past.';
REVOKE ALL ON FUNCTION howdah.lease_clock FROM PUBLIC;
