DO $$
BEGIN
    -- In SQL_ASCII, the same bytes are different characters for different clients, or none.
    IF current_setting('server_encoding') = 'SQL_ASCII' THEN
        RAISE EXCEPTION 'database % has the encoding SQL_ASCII, which stores bytes instead of characters. Nothing was changed', current_database()
            USING ERRCODE = 'JQ009', HINT = 'Install in a database with another encoding: CREATE DATABASE name ENCODING ''UTF8'' LOCALE ''C'' TEMPLATE template0';
    END IF;
END
$$;
