"""What the tests stand on: a real PostgreSQL, a clean queue for each test, and a clock that can be moved."""

from __future__ import annotations

import gc
import math
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
from psycopg.rows import dict_row

from howdah import JobQueue
from tests import servers
from tests.clock import TestClock

if TYPE_CHECKING:
    from selenium import webdriver

Db = psycopg.Connection[dict[str, Any]]
Connect = Callable[..., Db]

# These must hold on every version, as CI sees; the rest is about Python, and runs on one.
ON_EVERY_VERSION = ("sql", "properties") if os.environ.get("CI") else ()
# They take a quarter of a minute or more. Where CI is set they begin first, because the run would wait for them at its end;
# otherwise they run when they are asked for (TESTS=…).
LONG_TESTS = {
    "test_a_type_checker_infers_the_type_of_a_value_and_of_conn",
    "test_every_fault_happens_and_nothing_is_lost_or_doubled",
    "test_every_page_is_in_the_site",
    "test_every_page_links_to_the_source_and_the_changes",
    "test_every_screen_is_sound_for_everyone",
    "test_every_stored_result_can_be_drawn",
    "test_every_watcher_sees_every_event_in_order_through_a_restart",
    "test_no_text_is_a_command_or_markup",
    "test_nothing_is_fetched_from_elsewhere",
    "test_nothing_that_the_description_allows_or_forbids_breaks_it",
    "test_other_projects_can_link_to_every_public_name",
    "test_the_former_versions_tests_pass_on_todays_schema",
    "test_the_sample_project_in_a_browser",
}
LONG_CASES = ("_in_order[pg18-docs/tutorial.md]", "_in_order[pg18-docs/reference/command.md]", "test_case[clock-back]")
TABLES = (
    "live",
    "archive",
    "archive_counts",
    "events",
    "types",
    "workers",
    "schedules",
    "settings",
    "flow_keys",
    "flow_groups",
    "flow_types",
    "uniques",
    "backlog_counts",
    "steps",
    "signals",
    "signal_channels",
    "workflow_deltas",
    "workflow_spawned",
    "workflow_counts",
    "workflow_edges",
    "workflow_nodes",
    "workflows",
    "minutes",
    "audit",
)
# A choice for the versions between the newest and the oldest.
ON_THE_MIDDLE_ONE = {
    f"tests.sql.test_{name}" for name in ("seed", "claim", "flow", "unique", "selection", "migrate", "restore", "roles")
}

# Without CI, so many of the cases run, spread over all, when the whole suite does: each takes seconds, and they show
# one behaviour in variants.
A_CHOICE_OF = {
    "test_case": 6,
    "test_root_follows_no_link_out_of_the_home": 3,
    "test_a_starter_may_be_killed_when": 3,
    "test_a_run_that_is_ended_by_a_signal_leaves_no_server_behind": 1,
    "test_what_is_not_understood_in_one_place_spoils_nothing_elsewhere": 3,
    "test_no_verb_calls_what_is_planted": 2,
    "test_no_command_calls_what_is_planted": 1,
    "test_a_child_process_has_its_job_where_the_worker_was_started_without_standard_streams": 2,
    "test_a_wrong_call_exits_with_2_and_names_the_mistake": 4,
    "test_an_earlier_job_counts_in_the_states_of_the_rule": 5,
    "test_check_finds_changes_by_hand": 4,
    "test_not_a_second_is_lost_or_made_up_where_the_clock_changes": 2,
    "test_every_verb_gives_right_answers": 2,
    "test_an_enqueue_in_the_callers_session_gives_the_moments_that_are_stored": 4,
    "test_a_protocol_without_one_of_its_rules_is_refuted": 9,
    "test_a_missing_fence_is_found": 1,
    "test_the_events_of_one_job_are_found_by_its_id": 2,
    "test_a_restore_without_some_of_the_data_is_mended": 2,
    "test_after_a_restore_nothing_differs": 1,
    "test_batches_are_halved_until_they_pass": 2,
    "test_readonly_refuses_and_changes_nothing": 2,
    "test_every_block_of_a_page_runs_in_order": 21,
    "test_an_example_shows_its_output_and_runs_again": 6,
    "test_every_verb_answers_as_on_psycopg": 4,
    "test_every_property_holds_in_every_state": 3,
    "test_a_connection_without_a_request_is_closed": 1,
}

WITHOUT_OUR_PLUGINS = "-p no:faker -p no:hypothesispytest -p no:schemathesis"
"""The options of pytest in a project of a user's: what our other tests need would take most of its time to load."""

EMPTY = (
    "".join(f"DELETE FROM howdah.{table};" for table in TABLES)
    + "INSERT INTO howdah.settings DEFAULT VALUES; UPDATE howdah.clock_mark SET latest = '-infinity'"
)
FIND_THE_QUEUE = "SELECT set_config('search_path', 'howdah', false)"
END_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)

hypothesis.settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("default")

_servers: dict[int, servers.Server] = {}
_cleaners: dict[str, psycopg.Connection[Any]] = {}
_used: dict[str, Db] = {}
_given_dsn = os.environ.get("HOWDAH_TEST_DSN")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "major" not in metafunc.fixturenames:
        return
    folder = Path(metafunc.module.__file__ or "").relative_to(Path(__file__).parent).parts[0]
    if _given_dsn:
        majors: tuple[int, ...] = (servers.server_major(_given_dsn),)
    else:
        majors = servers.MAJORS if folder in ON_EVERY_VERSION else servers.MAJORS[:1]
        # What holds on the newest and on the oldest version holds between them, too.
        if metafunc.module.__name__ not in ON_THE_MIDDLE_ONE:
            majors = majors[:: len(majors) - 1 or 1]
    metafunc.parametrize("major", majors, ids=[f"pg{major}" for major in majors], scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args == config.getini("testpaths") and not os.environ.get("CI"):
        left_out = _beyond_the_choice(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: not _is_long(item))


def _beyond_the_choice(items: list[pytest.Item]) -> set[pytest.Item]:
    left_out: set[pytest.Item] = set()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_long(item):
            left_out.add(item)
        elif (name := item.name.partition("[")[0]) in A_CHOICE_OF:
            cases.setdefault(name, []).append(item)
    for name, some in cases.items():
        left_out.update(set(some).difference(some[:: math.ceil(len(some) / A_CHOICE_OF[name])]))
    return left_out


def _is_long(item: pytest.Item) -> bool:
    return item.name.partition("[")[0] in LONG_TESTS or item.name.endswith(LONG_CASES)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Six thousand tests are a heap that would be looked through again and again, now and later.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    for conn in (*_cleaners.values(), *_used.values()):
        conn.close()
    for server in _servers.values():
        server.stop()


@pytest.fixture(scope="session")
def server_dsn(major: int) -> str:
    """A server of this version, with Howdah installed."""
    dsn = _given_dsn or _server(major).dsn
    with JobQueue(dsn) as queue:
        queue.migrate()
    return dsn


@pytest.fixture(scope="session")
def shared_server() -> servers.Server:
    """The newest of the servers that were started here, for tests that make databases of their own in it."""
    return _server(servers.MAJORS[0])


def _server(major: int) -> servers.Server:
    if major not in _servers:
        binaries = servers.find(major)
        if binaries is None:
            message = f"PostgreSQL {major} is not installed here (Debian: apt-get install postgresql-{major})"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        _servers[major] = servers.Server(binaries)
    return _servers[major]


@pytest.fixture
def dsn(server_dsn: str) -> str:
    """The same, with no jobs, workers, types or schedules in it."""
    try:
        _cleaners[server_dsn].execute(EMPTY)
    except (KeyError, psycopg.OperationalError) as error:
        # There is none yet, or the test before has ended it, or has left a transaction open.
        cleaner = _cleaners[server_dsn] = psycopg.connect(server_dsn, autocommit=True, options="-c lock_timeout=30s")
        if isinstance(error, psycopg.errors.LockNotAvailable) and not _given_dsn:
            cleaner.execute(END_OTHERS)
        cleaner.execute(EMPTY)
    return server_dsn


@pytest.fixture
def connect(dsn: str) -> Iterator[Connect]:
    """Makes connections in autocommit mode, with the queue's schema in the search path."""
    opened: list[Db] = []

    def connect(**options: Any) -> Db:
        opened.append(_connected(dsn, **options))
        return opened[-1]

    yield connect
    for conn in opened:
        conn.close()


def _connected(dsn: str, **options: Any) -> Db:
    conn = psycopg.connect(dsn, row_factory=dict_row, **{"autocommit": True, **options})
    conn.execute(FIND_THE_QUEUE)
    return conn


@pytest.fixture
def db(dsn: str) -> Iterator[Db]:
    """A connection as connect() makes it, often that of the test before: a new one would have to compile the functions
    of the queue, which takes longer than most tests.
    """
    try:
        conn = _used.pop(dsn)
        # psycopg drops its prepared statements with the rollback, and the server all else of the session.
        conn.execute("BEGIN; ROLLBACK")
        conn.execute("DISCARD ALL")
        conn.execute(FIND_THE_QUEUE)
    except (KeyError, psycopg.OperationalError):
        conn = _connected(dsn)
    yield conn
    if conn.autocommit and conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        _used[dsn] = conn
    else:
        conn.close()


@pytest.fixture
def queue(dsn: str) -> Iterator[JobQueue]:
    with JobQueue(dsn) as queue:
        yield queue


@pytest.fixture
def clock(dsn: str) -> Iterator[TestClock]:
    with TestClock(dsn) as clock:
        yield clock


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    """A real browser."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        message = "Chromium is not installed here (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
        f"--user-data-dir={tmp_path / 'profile'}",
    ):  # fmt: skip
        options.add_argument(argument)
    made = webdriver.Chrome(options=options, service=Service(driver))
    yield made
    made.quit()
