"""What is logged about an outage."""

from __future__ import annotations

import logging

import pytest

from howdah.db.outage import Outage


def test_an_outage_that_comes_and_goes_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("howdah.db.outage.time.monotonic", lambda: now)
    seen = Outage(logging.getLogger("howdah.worker"))
    for _ in range(20):
        seen.began(OSError("no space left"))
        now += 0.01
        seen.ended()
    now += 2
    seen.ended()
    seen.ended()
    assert [record.getMessage() for record in caplog.records] == [
        "no space left; trying again until it is back",
        "the database is back after 2.2 s",
    ]
