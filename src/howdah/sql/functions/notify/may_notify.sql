-- A transaction that has notified cannot be prepared, so clients of two-phase commit switch it off. In capitals, because the name in
-- small letters would be taken for the schema's; the server does not tell one from the other.
-- With a notify queue that nothing empties, the transaction would fail as it commits.
CREATE OR REPLACE FUNCTION howdah.may_notify() RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce(lower(current_setting('HOWDAH.notify', true)), '') NOT IN ('off', 'false', 'no', '0')
    AND pg_notification_queue_usage() < 0.5;
COMMENT ON FUNCTION howdah.may_notify IS
    'Whether this transaction may send notifications: not while the setting HOWDAH.notify is off, and not while the queue for them is half full. Internal.';
REVOKE ALL ON FUNCTION howdah.may_notify FROM PUBLIC;
