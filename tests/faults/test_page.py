"""The outcomes of a whole run in docs/explanation/faults.md: every case was played."""

from __future__ import annotations

import json

from tests.faults.catalogue import CATALOGUE
from tests.faults.page import PAGE, RESULTS, page


def test_the_page_shows_a_run_of_every_case_in_which_none_has_failed() -> None:
    outcomes = json.loads(RESULTS.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, outcomes) == text, "run: python -m tests.faults.page"
    for major in (18, 15):
        assert [each["case"] for each in outcomes if each["major"] == major] == [case.name for case in CATALOGUE]
    assert {each["outcome"] for each in outcomes} <= {"passed", "skipped"}
    assert sum(each["lost"] + each["doubled"] for each in outcomes) == 0
