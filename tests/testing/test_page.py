"""The tests that docs/how-to/testing.md shows are tests that pass."""

from __future__ import annotations

import re

import pytest

from tests.conftest import WITHOUT_OUR_PLUGINS
from tests.docs.pages import ROOT, blocks_of

pytest_plugins = ["pytester"]

PAGE = ROOT / "docs/how-to/testing.md"


def test_every_test_of_the_page_passes(
    pytester: pytest.Pytester, howdah_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOWDAH_TEST_DSN", howdah_dsn)
    monkeypatch.delenv("HOWDAH_DSN", raising=False)
    shop, *tests = [block.text for block in blocks_of(PAGE) if block.language == "python"]
    imports = re.search(r"`(from shop import .+?)`", PAGE.read_text(encoding="utf-8"))
    assert imports is not None
    pytester.makeini(f"[pytest]\nfilterwarnings = error\naddopts = {WITHOUT_OUR_PLUGINS}\n")
    pytester.makepyfile(shop=shop, test_shop="\n\n".join([imports[1], *tests]))
    expected = "\n".join(tests).count("def test_")
    assert expected >= 6
    pytester.runpytest_inprocess("-q").assert_outcomes(passed=expected)


def test_the_failure_that_the_page_shows_is_what_comes_out(
    pytester: pytest.Pytester, howdah_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOWDAH_TEST_DSN", howdah_dsn)
    blocks = blocks_of(PAGE)
    (shown,) = [block.text for block in blocks if block.language == "text"]
    pytester.makeini(f"[pytest]\naddopts = {WITHOUT_OUR_PLUGINS}\n")
    pytester.makepyfile(
        shop=next(block.text for block in blocks if block.language == "python"),
        test_shop="""
            from shop import buy, queue, send_invoice
            from howdah.testing import assert_enqueued

            def test_it(howdah_database):
                howdah_database.use(queue)
                buy("ann@example.org")
                assert_enqueued(queue, send_invoice, {"invoice": 18})
        """,
    )
    printed = re.sub(
        r"^E +(AssertionError: )?", "", pytester.runpytest_inprocess("-q").stdout.str(), flags=re.MULTILINE
    )
    assert re.sub(r"\n +", "\n", shown) in printed
