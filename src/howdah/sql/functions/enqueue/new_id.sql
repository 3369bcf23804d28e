-- PostgreSQL 18 makes UUIDv7 itself. Before it: the transaction's millisecond, a counter that only grows (so that ids of one statement
-- sort in the order in which they were made), 40 random bits.
DO $do$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        CREATE OR REPLACE FUNCTION howdah.new_id() RETURNS uuid
        LANGUAGE sql VOLATILE PARALLEL SAFE
        RETURN uuidv7();
    ELSE
        CREATE OR REPLACE FUNCTION howdah.new_id() RETURNS uuid
        LANGUAGE sql VOLATILE
        RETURN (
            SELECT (
                lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0')
                || '7' || lpad(to_hex((counter >> 22) & 4095), 3, '0')
                || to_hex(8 | ((counter >> 20) & 3))
                || lpad(to_hex(counter & 1048575), 5, '0')
                || right(gen_random_uuid()::text, 10)
            )::uuid
            FROM nextval('howdah.id_counter') AS counter
        );
    END IF;
END
$do$;
COMMENT ON FUNCTION howdah.new_id IS 'A UUIDv7; ids made by one statement increase strictly.';
REVOKE ALL ON FUNCTION howdah.new_id FROM PUBLIC;
