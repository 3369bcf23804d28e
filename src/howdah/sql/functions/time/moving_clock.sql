-- A rate or a window that counted from the beginning of a transaction would be used up twice: by an old transaction, and by those that
-- came before its end. A clock that tests have moved stands still here, too, so that what they compute is exact.
CREATE OR REPLACE FUNCTION howdah.moving_clock() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE WHEN howdah.clock() = now() THEN clock_timestamp() ELSE howdah.clock() END;
COMMENT ON FUNCTION howdah.moving_clock IS
    'The clock for rates and for the windows of unique jobs: that of the moment, however old the transaction is. Internal.';
REVOKE ALL ON FUNCTION howdah.moving_clock FROM PUBLIC;
