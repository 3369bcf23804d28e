"""A batch of a selection reads a bounded number of pages, however many jobs there are and however few match.

Scaled down unless HOWDAH_SCALE=full (`make scale`), which makes a million of each.
"""

from __future__ import annotations

import pytest

from tests.conftest import Connect, Db
from tests.plans.test_archive_buffers import EACH, crowded, measured

__all__ = ["crowded"]

# Ten thousand jobs, which are beside each other in the table, and their entries in an index, twice. Failed ones are not beside each other.
A_WINDOW = 6_000
# The ten jobs of a flow key, found and changed, and a look at each of a hundred types for those that have the key.
A_KEY = 200
A_CHANGE = 1_000
OF_EACH_TYPE = 3_000


@pytest.fixture
def full(crowded: Db) -> Db:
    """So many that wait, and as many that have ended, one in ten of them failed. Ten of each flow key wait."""
    crowded.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts, key, flow_key, line)"
        " SELECT new_id(), 'type ' || n %% 100, 100, now(), now(), now(), 3, n, n %% (%s / 10), 'ready'"
        " FROM generate_series(1, %s) AS n",
        (EACH, EACH),
    )
    return crowded


@pytest.mark.parametrize("known", ["without statistics", "with statistics"])
def test_a_batch_reads_a_window_at_most(full: Db, connect: Connect, known: str) -> None:
    if known == "with statistics":
        full.execute("ANALYZE")
    for statement in (
        "SELECT * FROM count_selected(p_job_types => '{none}')",
        "SELECT * FROM count_selected(p_error => 'none')",
        "SELECT * FROM change_selected('cancel', p_job_types => '{none}')",
        "SELECT * FROM change_selected('cancel', p_statuses => '{running}')",
        "SELECT * FROM change_selected('cancel', p_key => 'none')",
        "SELECT * FROM change_selected('delete', p_before => '2000-01-01')",
        "SELECT * FROM change_selected('retry', p_job_types => '{none}')",
        "SELECT * FROM change_selected('retry', p_statuses => '{completed}', p_error => 'none')",
    ):
        assert measured(connect, statement) <= A_WINDOW, statement


@pytest.mark.parametrize("known", ["without statistics", "with statistics"])
def test_the_jobs_of_a_flow_key_are_found_by_it(full: Db, connect: Connect, known: str) -> None:
    if known == "with statistics":
        full.execute("ANALYZE")
    filters = "p_statuses => '{pending}', p_flow_key => '17'"
    for statement, most in (
        (f"SELECT * FROM count_selected({filters}, p_job_types => '{{type 17}}')", A_KEY),
        (f"SELECT * FROM count_selected({filters})", A_KEY + OF_EACH_TYPE),
        (f"SELECT * FROM change_selected('reprioritise', {filters}, p_priority => 7)", A_KEY + A_CHANGE + OF_EACH_TYPE),
    ):
        assert measured(connect, statement) <= most, statement
        # In one batch: no window was read for the jobs that have other keys.
        assert full.execute(statement.encode()).fetchall()[0]["next_position"] is None
