"""Sessions that do the same on Howdah's table and on a plain one, and may wait for each other's locks."""

from __future__ import annotations

import dataclasses
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

import psycopg
from psycopg import RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from tests.conftest import Db
from tests.properties.plain_answers import Answer
from tests.properties.plain_deviations import Row
from tests.properties.plain_forms import Sent, sent
from tests.properties.plain_statements import Read, Statement, Taken, Target

Rows = dict[uuid.UUID, Row]

PATIENCE: Final = "60s"
"""Only a test that fails waits for so long."""


def connect(dsn: str, schema: str) -> Db:
    options = f"-c search_path={schema} -c deadlock_timeout=1h -c statement_timeout={PATIENCE} -c jit=off"
    conn = psycopg.connect(dsn, autocommit=True, row_factory=dict_row, prepare_threshold=1_000_000, options=options)
    # Data is written back as it was read.
    conn.adapters.register_loader("jsonb", TextLoader)
    return conn


def view(conn: Db) -> Rows:
    """The table as a connection sees it. A new ctid is a new version of a row."""
    return {row["id"]: row for row in conn.execute("SELECT ctid::text, * FROM jobs ORDER BY id", prepare=True)}


class Line:
    """A connection to one of the tables, with a thread of its own, because a statement may wait for a lock."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.conn = connect(dsn, schema)
        self.pid = self.conn.info.backend_pid
        self.answer: Future[Answer] | None = None
        self._thread = ThreadPoolExecutor(1)
        # Makes the schema of what is temporary, outside of all transactions.
        self.conn.execute("CREATE FUNCTION pg_temp.nothing() RETURNS int LANGUAGE sql AS 'SELECT 1'")

    def close(self) -> None:
        self._thread.shutdown()
        self.conn.close()

    def send(self, what: Sent) -> None:
        self.answer = self._thread.submit(self._execute, what)

    def _execute(self, what: Sent) -> Answer:
        cursor = RawCursor(self.conn, row_factory=dict_row)
        try:
            if what.first:
                self.conn.execute(what.first.encode())
            cursor.execute(what.text.encode(), what.values or None, prepare=what.is_prepared)
        except psycopg.Error as error:
            return Answer(sqlstate=error.sqlstate)
        rows = cursor.fetchall() if cursor.description else None
        if what.tells == "nothing":
            return Answer()
        if what.tells == "number":
            assert rows is not None
            return Answer(number=rows[0]["count"])
        return Answer(number=cursor.rowcount, rows=rows)

    def has_answered(self, within: float) -> bool:
        """Whether what was sent has been answered, or is within these seconds."""
        return self.answer is None or bool(wait([self.answer], within).done)

    @property
    def status(self) -> TransactionStatus:
        return self.conn.info.transaction_status

    def view(self) -> Rows:
        return view(self.conn)


@dataclasses.dataclass
class Session:
    """A client: a line to each table, and what the client keeps between its statements."""

    name: str
    ours: Line
    plain: Line
    taken: list[uuid.UUID] = dataclasses.field(default_factory=list)
    read: dict[str, Row] = dataclasses.field(default_factory=dict)
    """The last row that was read, on each of the tables."""

    statement: Statement | None = None
    """What has been sent, and is not concluded."""
    is_alone: bool = False
    """Whether it is a transaction by itself."""
    seen: Rows = dataclasses.field(default_factory=dict)
    """The plain table as the session saw it when the statement began."""
    committed: Rows | None = None
    """The plain table as others saw it when the statement began to wait."""
    _looks_for_deadlocks: bool = False

    @property
    def lines(self) -> tuple[Line, Line]:
        return self.ours, self.plain

    @property
    def waits(self) -> bool:
        return self.statement is not None

    @property
    def has_hidden_locks(self) -> bool:
        """Whether its statement waits, and may hold other locks than on the plain table by then.

        Several rows are locked in an order that is not promised. A row that is inserted has its id in the parent first.
        """
        return self.statement is not None and (self.statement.many or "INSERT" in self.statement.text)

    @property
    def is_inside(self) -> bool:
        """Whether a transaction is open."""
        return self.ours.status != TransactionStatus.IDLE

    @property
    def is_broken(self) -> bool:
        """Whether its transaction can only be rolled back."""
        return self.ours.status == TransactionStatus.INERROR

    def look_for_deadlocks(self, so: bool) -> None:
        """At once, or never. The one that waits first does not, so that the one that closes the circle gets the error."""
        if so != self._looks_for_deadlocks and self.ours.status == TransactionStatus.INTRANS:
            for line in self.lines:
                line.conn.execute(f"SET LOCAL deadlock_timeout = '{'1ms' if so else '1h'}'".encode())
        self._looks_for_deadlocks = so

    def send(self, statement: Statement, form: str) -> Sent:
        """Sends a statement on both lines. On the plain one in a transaction, because it may have to be corrected."""
        self.statement = statement
        self.is_alone = not self.is_inside and not statement.is_control
        self.committed = None
        if self.is_alone:
            self.plain.conn.execute("BEGIN")
        if not self.is_broken:
            self.seen = self.plain.view()
        ours = sent(statement, form, statement.text, self._values(statement, "ours"))
        plain = sent(statement, form, statement.on_plain or statement.text, self._values(statement, "plain"))
        self.ours.send(ours)
        self.plain.send(plain)
        return ours

    def answers(self) -> tuple[Statement, Answer, Answer]:
        assert self.statement is not None
        assert self.ours.answer is not None
        assert self.plain.answer is not None
        statement, self.statement = self.statement, None
        return statement, self.ours.answer.result(), self.plain.answer.result()

    def end_alone(self, answer: Answer) -> None:
        """Ends the plain line's transaction, if the statement is one by itself."""
        if self.is_alone:
            self.plain.conn.execute("ROLLBACK" if answer.sqlstate else "COMMIT")

    def remember(self, statement: Statement, ours: Answer, plain: Answer) -> None:
        if statement.verb == "SELECT" and ours.rows is not None and plain.rows is not None:
            self.taken = [row["id"] for row in plain.rows]
            if ours.rows and plain.rows and "status" in plain.rows[0]:
                self.read = {"ours": ours.rows[0], "plain": plain.rows[0]}

    def forget(self) -> None:
        self.taken, self.read, self.statement, self.seen, self.committed = [], {}, None, {}, None

    def _values(self, statement: Statement, table: str) -> list[Any]:
        return [self._value(value, table) for value in statement.values]

    def _value(self, value: Any, table: str) -> Any:
        if isinstance(value, Target):
            found = [id for id, row in self.seen.items() if row["status"] in value.statuses] or list(self.seen)
            return found[value.number % len(found)] if found else uuid.UUID(int=0)
        if isinstance(value, Taken):
            return self.taken
        if isinstance(value, Read):
            return self.read[table][value.column] if self.read else None
        return value
