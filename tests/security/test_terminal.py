"""Whatever others wrote, by the client or past it: no command obeys it, prints it raw, or lets it begin a line."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import psycopg
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from howdah import JobQueue
from tests.cli.runner import howdah
from tests.cli.test_health import register
from tests.cli.test_terminal_escape import HOSTILE, dangers
from tests.conftest import Db
from tests.security.working import work

# What PostgreSQL can store in a text, and above all what a terminal would act upon.
ESCAPES = [
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b31m",
    "\x1bP+q\x1b\\",
    "\r",
    "\n",
    "\b",
    "\t",
    "\u202e",
    "\u2066",
    "\u2028",
    "\ufeff",
]
TEXT = st.lists(
    st.sampled_from(ESCAPES) | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10),
    min_size=1,
    max_size=6,
).map(lambda parts: "".join(parts)[:50] or "x")


# A smaller example would show no more, and each takes a second.
@settings(max_examples=1, phases=[Phase.explicit, Phase.generate])
@given(text=TEXT)
@example("x" + "".join(ESCAPES))
def test_no_command_shows_it_as_it_is(server_dsn: str, text: str) -> None:
    name = "".join(c for c in text if c not in "\0" and not (c < " " or "\x7f" <= c < "\xa0")) or "x"
    with psycopg.connect(server_dsn, autocommit=True) as conn, JobQueue(server_dsn) as queue:
        conn.execute("SET search_path = howdah")
        for table in ("live", "archive", "events", "workers", "schedules", "types"):
            conn.execute(f"DELETE FROM {table}".encode())
        # Past every check of the client and of the functions, as the owner of the tables can.
        queue.enqueue("work", {text: text})
        (job,) = queue.claim(["work"])
        queue.start(job)
        queue.event(job, "told", {text: [text]})
        queue.progress(job, 10)
        conn.execute(
            "UPDATE live SET job_type = %s, current_stage = %s, worker_id = %s, last_error = %s, key = %s, meta = %s,"
            " own_write = NOT own_write",
            (text, text, text, text, text, Jsonb({text: text})),
        )
        conn.execute("UPDATE events SET name = %s, job_type = %s", (text, text))
        conn.execute(
            "SELECT register_worker(%s, gen_random_uuid(), p_host => %s, p_version => %s)", (f"{text}w", text, text)
        )
        conn.execute("UPDATE workers SET job_types = ARRAY[%s], meta = %s", (text, Jsonb({text: text})))
        queue.schedules.set(name[:50], name[:50], {text: text}, every=60)
        conn.execute("UPDATE schedules SET name = %s, job_type = %s, timezone = %s", (text, text, text))
        conn.execute("INSERT INTO types (job_type, paused_at, paused_because) VALUES (%s, now(), %s)", (text, text))
    for argv in (
        ["list"], ["list", "--json"], ["show", str(job.id)], ["show", str(job.id), "--json"], ["logs", str(job.id)],
        ["stats"], ["stats", "--json"], ["health", "--any"], ["health", f"--worker={text}"], ["health", f"--host={text}"],
        ["top", "--once"], ["top", "--json"], ["schedule", "list"], ["schedule", "show", text], ["schedule", "list", "--json"],
        ["pause", text], ["retry", text],
        ["enqueue", text, text], ["prune", "--keep", text], ["stats", "--schema", text], [text],
    ):  # fmt: skip
        for columns in ("60", "200"):
            said = howdah(*argv, dsn=server_dsn, COLUMNS=columns)
            assert not dangers(said.out + said.err), argv
            assert "Traceback" not in said.err
    with JobQueue(server_dsn) as queue:
        queue.fail(job, text, give_up=True)
    for argv in (["watch", str(job.id)], ["show", str(job.id)], ["list"]):
        assert not dangers(howdah(*argv, dsn=server_dsn).out), argv
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute("DELETE FROM howdah.live")


def test_nothing_in_a_job_begins_a_line_of_a_workers_log(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    hostile = HOSTILE + "\n2026-01-01 00:00:00.000 error   the database is gone\n" + '{"level": "error"}\n'
    (tmp_path / "app.py").write_text(
        "import logging\nfrom howdah import Fail, JobQueue\nqueue = JobQueue()\n"
        f"TEXT = {hostile!r}\n"
        "@queue.job(max_attempts=1)\nasync def raises(): raise ValueError(TEXT)\n"
        "@queue.job(max_attempts=1)\ndef gives_up(): raise Fail(TEXT)\n"
        "@queue.job\nasync def logs():\n    logging.getLogger(TEXT).error(TEXT + '%s', TEXT)\n"
        "    try: raise KeyError(TEXT)\n    except KeyError: logging.getLogger('x').exception(TEXT)\n"
    )
    for how in ([], ["--json"]):
        for job_type in ("raises", "gives_up", "logs"):
            queue.enqueue(job_type, max_attempts=1)
        name = "\u202eworker\u2066"
        said = work("app", dsn, "--drain", "--name", name, *how, PYTHONPATH=str(tmp_path))
        assert said.code == 0, said.err
        assert not dangers(said.out + said.err)
        lines = (said.out if how else said.err).splitlines()
        assert len(lines) > 4
        if how:
            assert {json.loads(line)["pid"] for line in lines}
        else:
            assert not [line for line in lines if "the database is gone" in line[:60]]


def test_the_name_of_a_host_or_of_an_application_is_text_to_us(dsn: str, queue: JobQueue, db: Db) -> None:
    register(db, HOSTILE[:100], host=HOSTILE)
    assert not dangers(howdah("health", "--any", dsn=dsn).out)
    # The application that keeps a segment of the archive in use is named in the reason why it was not dropped.
    with psycopg.connect(dsn, application_name="\x1b[31mowned \u202e"[:60]) as conn:
        conn.execute("SELECT count(*) FROM howdah.archive")
        said = howdah("prune", "--keep", "0s", dsn=dsn)
        assert not dangers(said.out + said.err)
    assert socket.gethostname() not in HOSTILE
