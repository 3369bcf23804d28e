"""Intervals whose parts cancel out are no longer than a hundred years, and cannot be added to any time."""

from __future__ import annotations

import psycopg
import pytest

from tests.conftest import Db

FAR = ["1000000 months -30000000 days", "-1000000 months 30000001 days", "60000000 days -1439999999 hours"]


@pytest.mark.parametrize("span", FAR)
@pytest.mark.parametrize("option", ["delay", "timeout", "expires_in"])
def test_a_job_with_one_is_refused(db: Db, option: str, span: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        db.execute(f"SELECT enqueue('mail', p_{option} => %s::interval)", (span,))
    assert refused.value.sqlstate == "JQ001", refused.value
    assert db.execute("SELECT FROM live").fetchall() == []


@pytest.mark.parametrize("span", ["100 years", "36500 days", "876000 hours", "1 mon -29 days", "1 us"])
def test_all_others_are_taken(db: Db, span: str) -> None:
    db.execute("SELECT enqueue('mail', p_delay => %s::interval, p_timeout => %s::interval)", (span, span))
