-- A transaction that has notified cannot be prepared, so clients with two-phase commit turn notifications off. The setting is in capitals
-- because in lower case it would be rendered as the name of the schema; the server treats both alike.
-- With a full notification queue, the transaction would fail at its commit.
CREATE OR REPLACE FUNCTION howdah.may_notify() RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce(lower(current_setting('HOWDAH.notify', true)), '') NOT IN ('off', 'false', 'no', '0')
    AND pg_notification_queue_usage() < 0.5;
COMMENT ON FUNCTION howdah.may_notify IS
    'Whether this transaction may send notifications: not while the setting HOWDAH.notify is off, and not while their queue is half full. Internal.';
REVOKE ALL ON FUNCTION howdah.may_notify FROM PUBLIC;
