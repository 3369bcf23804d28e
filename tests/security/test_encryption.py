"""The codec that encrypts: how it stores values, and how unreadable ones are returned."""

from __future__ import annotations

import base64
import contextlib
import copy
import logging
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from howdah import InvalidOption, Job, JobQueue, KeyMissing, Undecodable, Unreadable
from howdah.encryption import ENVIRONMENT, EncryptedCodec, _Key, new_key
from howdah.model.codec import encode_text
from tests.cli.runner import howdah
from tests.conftest import Db
from tests.worker.in_process import drain

FIRST, SECOND = new_key(), new_key()
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
LOOKS_SEALED = {"howdah.sealed": "AAAA", "key": "0" * 12}


@pytest.fixture
def sealed(dsn: str) -> Iterator[JobQueue]:
    with JobQueue(dsn, codec=EncryptedCodec(FIRST)) as queue:
        yield queue


def with_keys(dsn: str, *keys: str, **options: Any) -> contextlib.closing[JobQueue]:
    return contextlib.closing(JobQueue(dsn, codec=EncryptedCodec(keys, **options)))


# Values


@pytest.mark.parametrize(
    ("secret", "context", "expected"),
    [
        (b"\1" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\3" * 32, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_it_is_the_documented_cipher(secret: bytes, context: bytes, expected: str) -> None:
    """The published examples of XAES-256-GCM."""
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    assert _Key(secret)._derived(nonce).encrypt(nonce[12:], b"XAES-256-GCM", context).hex() == expected


@given(value=JSON | st.just(LOOKS_SEALED), old=st.booleans())
def test_every_value_comes_back_also_after_the_key_was_changed(value: Any, old: bool) -> None:
    stored = EncryptedCodec(FIRST if old else SECOND).encode(value)
    opened = EncryptedCodec([SECOND, FIRST]).decode(stored)
    assert (opened, type(opened)) == (value, type(value))


@given(value=JSON, at=st.integers(min_value=0), bit=st.integers(0, 7))
def test_not_a_bit_of_it_can_be_changed(value: Any, at: int, bit: int) -> None:
    codec = EncryptedCodec(FIRST)
    stored = codec.encode(value)
    message = bytearray(base64.b64decode(stored["howdah.sealed"]))
    message[at % len(message)] ^= 1 << bit
    with pytest.raises(Undecodable, match="was changed"):
        codec.decode({**stored, "howdah.sealed": base64.b64encode(message).decode()})


@given(value=JSON)
def test_other_keys_do_not_read_it_and_equal_values_do_not_look_equal(value: Any) -> None:
    codec = EncryptedCodec(FIRST)
    stored = codec.encode(value)
    assert stored != codec.encode(value)
    other = EncryptedCodec(SECOND)
    with pytest.raises(KeyMissing) as missing:
        other.decode(stored)
    assert missing.value.key_id == codec.key_ids[0] != other.key_ids[0]
    assert codec.key_ids[0] in str(missing.value)
    with pytest.raises(Undecodable):
        other.decode({**stored, "key": other.key_ids[0]})


@given(
    value=JSON | st.sampled_from([LOOKS_SEALED, {**LOOKS_SEALED, "key": ["x"]}, {**LOOKS_SEALED, "howdah.sealed": 7}])
)
def test_what_is_not_encrypted_is_read_only_where_that_is_allowed(value: Any) -> None:
    with pytest.raises(Undecodable):
        EncryptedCodec(FIRST).decode(value)
    if not (isinstance(value, dict) and "howdah.sealed" in value):
        assert EncryptedCodec(FIRST, allow_plain=True).decode(value) == value


def test_keys_are_taken_as_bytes_and_text_one_or_several() -> None:
    raw = base64.urlsafe_b64decode(FIRST)
    ids = EncryptedCodec([FIRST, SECOND]).key_ids
    assert len(set(ids)) == 2
    several: list[Any] = [f"{FIRST},{SECOND}", f" {FIRST.rstrip('=')} , {SECOND},", [raw, SECOND], (FIRST, SECOND)]
    for keys in several:
        assert EncryptedCodec(keys).key_ids == ids
    assert EncryptedCodec(raw).key_ids == ids[:1]
    assert EncryptedCodec.from_environment(environ={ENVIRONMENT: f"{FIRST},{SECOND}"}).key_ids == ids


@pytest.mark.parametrize(
    "keys",
    ["", [], "short", FIRST[:-6], f"{FIRST}x!", [FIRST, FIRST], b"16 bytes of text", [1], 7, None],
    ids=lambda _: "keys",
)
def test_what_is_no_key_is_refused_without_being_shown(keys: Any) -> None:
    with pytest.raises(InvalidOption) as refused:
        EncryptedCodec(keys)
    assert FIRST[:8] not in str(refused.value)
    assert "short" not in str(refused.value)


def test_without_keys_in_the_environment_the_error_names_the_variable() -> None:
    with pytest.raises(InvalidOption, match=ENVIRONMENT):
        EncryptedCodec.from_environment(environ={ENVIRONMENT: " "})


def test_what_is_no_key_in_the_environment_names_the_variable_and_how_several_are_written() -> None:
    for wrong, because in ((f"{FIRST}:{SECOND}", "key 1 is not urlsafe base64"), ("AA", "key 1 has 1 byte: ")):
        with pytest.raises(InvalidOption, match=f"^{ENVIRONMENT}, .* commas between them: {because}"):
            EncryptedCodec.from_environment(environ={ENVIRONMENT: wrong})


def test_no_key_is_shown_by_what_holds_it(dsn: str) -> None:
    codec = EncryptedCodec([FIRST, SECOND])
    with JobQueue(dsn, codec=codec) as queue:
        shown = f"{codec!r} {codec} {queue!r} {queue._context!r}"
    assert FIRST not in shown
    assert base64.urlsafe_b64decode(FIRST).hex() not in shown


def test_the_error_of_a_missing_key_can_be_copied_and_sent() -> None:
    error = KeyMissing("no", key_id="abc")
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(copied), copied.key_id) == ("no", "abc")


def test_without_the_library_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import howdah; from howdah.encryption import EncryptedCodec, new_key\n"
        "try: EncryptedCodec(new_key())\n"
        "except howdah.HowdahError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'howdah[encryption]'" in done.stdout


def test_importing_howdah_does_not_import_the_library() -> None:
    program = "import sys, howdah, howdah.encryption; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# A queue


@settings(max_examples=15)
@given(value=JSON, error=st.text(max_size=200))
def test_what_goes_through_the_database_comes_back(server_dsn: str, value: Any, error: str) -> None:
    with with_keys(server_dsn, FIRST) as queue:
        job = queue.enqueue("sealed", value)
        (claimed,) = queue.claim(["sealed"])
        assert claimed.data == ({} if value is None else value)
        queue.checkpoint(claimed, value)
        queue.event(claimed, "told", value)
        queue.fail(claimed, error, delay=0)
        (claimed,) = queue.claim(["sealed"])
        assert claimed.resumed == value
        queue.complete(claimed, value)
        done = queue.get(job)
        assert done.result == value
        assert done.last_error == error.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def rotated(dsn: str, count: int = 5) -> tuple[list[Job], Job]:
    """Jobs that the first key can read, and among them one of the second."""
    with with_keys(dsn, FIRST) as queue, with_keys(dsn, SECOND) as other:
        readable = [queue.enqueue("work", {"n": n}) for n in range(count)]
        unreadable = other.enqueue("work", {"n": -1}, priority=150)
    return readable, unreadable


def test_an_unreadable_job_does_not_block_reading_or_claiming_others(dsn: str, sealed: JobQueue) -> None:
    readable, unreadable = rotated(dsn)
    page = sealed.list()
    assert [job.data for job in page if job.id != unreadable.id] == [{"n": n} for n in (4, 3, 2, 1, 0)]
    bad = sealed.get(unreadable)
    assert isinstance(bad.data, Unreadable)
    assert EncryptedCodec(SECOND).key_ids[0] in bad.data.reason

    claimed = sealed.claim(["work"], 100)
    assert [job.id for job in claimed] == [job.id for job in readable]
    refused = sealed.get(unreadable)
    assert (refused.status, refused.attempts) == ("pending", 1)
    assert EncryptedCodec(SECOND).key_ids[0] in (refused.last_error or "")
    assert (refused.run_at - refused.created_at).total_seconds() > 30


def test_a_worker_without_the_key_fails_the_job_and_loses_nothing(dsn: str, sealed: JobQueue, db: Db) -> None:
    readable, unreadable = rotated(dsn)
    seen: list[int] = []

    @sealed.job
    async def work(n: int) -> None:
        seen.append(n)

    report = drain(sealed)
    assert sorted(seen) == list(range(len(readable)))
    assert report.counts["completed"] == len(readable)
    assert sealed.get(unreadable).status == "pending"
    for _ in range(2):
        db.execute("UPDATE live SET run_at = now()")
        drain(sealed)
    bad = sealed.get(unreadable)
    assert bad.status == "failed"
    assert {each.kind for each in bad.errors} == {"failed"}
    assert all(EncryptedCodec(SECOND).key_ids[0] in each.error for each in bad.errors)

    with with_keys(dsn, FIRST, SECOND) as both:
        both.retry(unreadable)
        assert [job.data for job in both.claim(["work"])] == [{"n": -1}]


def test_a_checkpoint_that_cannot_be_read_keeps_a_job_from_beginning_anew(dsn: str, sealed: JobQueue) -> None:
    with with_keys(dsn, SECOND, FIRST) as other:
        sealed.enqueue("work", {"n": 1})
        (job,) = other.claim(["work"])
        other.checkpoint(job, {"paid": 500})
        other.release(job)
    assert sealed.claim(["work"]) == []
    assert "cannot be read here" in (sealed.list()[0].last_error or "")


def test_results_errors_and_events_that_cannot_be_read_are_marked(dsn: str, sealed: JobQueue) -> None:
    with with_keys(dsn, SECOND, FIRST) as other:
        done, failed = sealed.enqueue("work", {"n": 1}), sealed.enqueue("work", {"n": 2})
        first, second = other.claim(["work"])
        other.event(first, "told", {"n": 1})
        other.complete(first, "result")
        other.fail(second, ValueError("because"), give_up=True)
    ended = sealed.wait_for([done, failed], timeout=30)
    assert isinstance(ended[0].result, Unreadable)
    with pytest.raises(Undecodable, match=EncryptedCodec(SECOND).key_ids[0]):
        ended[0].value()
    assert ended[1].data == {"n": 2}
    assert "cannot be read" in (ended[1].last_error or "")
    assert "cannot be read" in ended[1].errors[0].error
    told = sealed.events(done, kinds=["event"])
    assert isinstance(told[0].data, Unreadable)
    updates = [update for job in (done, failed) for update in sealed.watch(job)]
    assert {update.kind for update in updates} == {"progress", "event", "status"}


def test_an_unreadable_schedule_does_not_break_the_list(dsn: str, sealed: JobQueue) -> None:
    with with_keys(dsn, SECOND) as other:
        other.schedules.set("b", "work", {"n": 2}, every=60)
    sealed.schedules.set("a", "work", {"n": 1}, every=60)
    first, second = sealed.schedules.list()
    assert first.data == {"n": 1}
    assert isinstance(second.data, Unreadable)


def test_a_queue_that_was_plain_before_goes_on_if_that_is_allowed(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("work", {"old": True})
    failing = queue.enqueue("mail", {"old": True})
    queue.fail(queue.claim(["mail"])[0], "an old error", give_up=True)
    with with_keys(dsn, FIRST, allow_plain=True) as mixed, with_keys(dsn, FIRST) as strict:
        mixed.enqueue("work", {"old": False})
        assert isinstance(strict.list(job_type="work")[1].data, Unreadable)
        assert mixed.get(failing).last_error == strict.get(failing).last_error == "an old error"
        assert [job.data for job in mixed.claim(["work"])] == [{"old": True}, {"old": False}]


def test_a_stored_value_that_reads_redacted_is_not_taken_as_encrypted(sealed: JobQueue, db: Db) -> None:
    """It stands for nothing where nothing is redacted."""
    sealed.schedules.set("nightly", "work", cron="0 3 * * *")
    ended = sealed.enqueue("mail")
    (job,) = sealed.claim(["mail"])
    sealed.event(job, "opened", {"n": 1})
    sealed.complete(job, {"n": 1})
    db.execute("ALTER TABLE archive_open DISABLE TRIGGER archive_unchanged")
    for column in ("live.checkpoint", "archive.data", "archive.result", "events.data", "schedules.data"):
        table, name = column.split(".")
        db.execute(
            f"UPDATE {table} SET {name} = '\"[redacted]\"' WHERE {name} IS NOT NULL AND {name} ? 'howdah.sealed'"
        )
    db.execute("ALTER TABLE archive_open ENABLE TRIGGER archive_unchanged")
    waits = uuid.uuid4()
    db.execute("INSERT INTO jobs (id, job_type, data) VALUES (%s, 'work', '\"[redacted]\"')", (waits,))

    (event, _) = sealed.events(ended)
    read = [sealed.get(waits).data, sealed.get(ended).data, sealed.wait_for(ended).data, sealed.list()[0].data]
    read += [
        event.data,
        sealed.schedules.get("nightly").data,
        *(update.data for update in sealed.watch(ended, kinds=["event"])),
    ]
    with contextlib.closing(sealed.watch_all(kinds=["event"], after="")) as updates:
        read.append(next(updates).data)
    assert {type(value) for value in read} == {Unreadable}
    with pytest.raises(Undecodable):
        sealed.wait_for(ended).value()
    assert sealed.claim(["work"]) == []
    db.execute("UPDATE live SET run_at = now()")

    @sealed.job
    async def work(job: Job) -> None:
        raise AssertionError(job.data)

    drain(sealed)
    assert "not encrypted" in (sealed.get(waits).last_error or "")


def test_how_a_child_process_died_can_be_read(dsn: str, sealed: JobQueue, db: Db) -> None:
    """The database adds how often to what the worker has encrypted."""
    sealed.enqueue("work")
    (job,) = sealed.claim(["work"])
    sealed.start(job)
    error = encode_text(EncryptedCodec(FIRST), "the child process was killed")
    db.execute("SELECT * FROM crash(ARRAY[%s]::uuid[], ARRAY[%s]::bigint[], ARRAY[%s])", (job.id, job.token, error))
    assert sealed.get(job).last_error == "the child process was killed (worker died once)"


@pytest.mark.parametrize(
    "text", ['{"encoded": ', '{"encoded": 7} and more', '{"encoded": {"howdah.sealed": 1, "key": "x"}}']
)
def test_an_error_that_only_looks_encrypted_harms_nothing(sealed: JobQueue, db: Db, text: str) -> None:
    job = sealed.enqueue("work", {"n": 1})
    db.execute("UPDATE live SET last_error = %s, errors = %s, own_write = NOT own_write", (text, Jsonb([])))
    assert "cannot be read" in (sealed.get(job).last_error or "")
    assert [each.data for each in sealed.claim(["work"])] == [{"n": 1}]


# The command


def test_the_command_reads_and_writes_with_the_keys_of_the_environment(dsn: str, sealed: JobQueue) -> None:
    keys = {ENVIRONMENT: f"{FIRST},{SECOND}"}
    added = howdah("enqueue", "work", '{"pin": 1234}', dsn=dsn, **keys)
    assert added.code == 0
    job = sealed.get(added.out.strip())
    assert job.data == {"pin": 1234}
    assert '"pin": 1234' in howdah("show", str(job.id), dsn=dsn, **keys).out
    assert howdah("list", "--json", dsn=dsn, **keys).lines[0]["data"] == {"pin": 1234}
    assert "1234" not in howdah("show", str(job.id), dsn=dsn).out


def test_the_command_shows_what_it_cannot_read_as_that(dsn: str, sealed: JobQueue) -> None:
    sealed.schedules.set("nightly", "work", {"n": 1}, every=60)
    sealed.enqueue("work", {"n": 1})
    (job,) = sealed.claim(["work"])
    sealed.event(job, "told", {"n": 1})
    sealed.complete(job, {"n": 1})
    others = {ENVIRONMENT: SECOND}
    (missing,) = EncryptedCodec(FIRST).key_ids
    for argv in (["show", str(job.id)], ["schedule", "show", "nightly"]):
        for how in ([], ["--json"]):
            shown = howdah(*argv, *how, dsn=dsn, **others)
            assert shown.code == 0, shown.err
            assert missing in shown.out
            assert bool(how) != ("(cannot be read: KeyMissing: " in shown.out)
            assert '"reason"' not in shown.out.replace('{"howdah.unreadable": {"reason"', "")
    for argv in (["list"], ["list", "--json"], ["watch", str(job.id)], ["top", "--once"], ["top", "--json"], ["stats"]):
        assert howdah(*argv, dsn=dsn, **others).code == 0
    (told,) = howdah("list", "--json", dsn=dsn, **others).lines
    for field in ("data", "result"):
        assert missing in told[field]["howdah.unreadable"]["reason"]
    assert howdah("list", dsn=dsn, **{ENVIRONMENT: "nonsense"}).code == 2


def test_a_log_line_that_cannot_be_read_is_not_taken_for_one(dsn: str, sealed: JobQueue) -> None:
    @sealed.job
    async def work() -> None:
        logging.getLogger("shop").warning("sold")

    job = work.enqueue()
    drain(sealed)
    assert "sold" in howdah("logs", str(job.id), dsn=dsn, **{ENVIRONMENT: FIRST}).out
    others = {ENVIRONMENT: SECOND}
    assert "WARNING  (cannot be read: KeyMissing: " in howdah("logs", str(job.id), dsn=dsn, **others).out
    (line,) = howdah("logs", str(job.id), "--json", dsn=dsn, **others).lines
    assert "KeyMissing" in line["message"]["howdah.unreadable"]["reason"]


def test_without_keys_the_command_shows_what_is_encrypted(dsn: str, sealed: JobQueue) -> None:
    job = sealed.enqueue("work", max_attempts=1)
    (claimed,) = sealed.claim(["work"])
    sealed.event(claimed, "told", {"n": 1})
    try:
        raise ValueError("no such customer")
    except ValueError as error:
        sealed.fail(claimed, error)
    for argv in (["list"], ["show", str(job.id)], ["watch", str(job.id)]):
        shown = howdah(*argv, dsn=dsn).out
        assert "(encrypted)" in shown
        assert "encoded" not in shown
    assert "told (encrypted)" in howdah("show", str(job.id), dsn=dsn).out
