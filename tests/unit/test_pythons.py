"""Which Pythons CI runs tests on, beside its own."""

from __future__ import annotations

from pathlib import Path

from tests.pythons import oldest_others, parsed


def test_the_oldest_release_of_each_other_version_and_of_its_own_if_it_is_not_that() -> None:
    found = [((3, 12, 1), Path("a")), ((3, 11, 7), Path("b")), ((3, 11, 2), Path("c")), ((3, 13, 0), Path("d"))]
    assert oldest_others(found, (3, 13, 0)) == [Path("c"), Path("a")]
    assert oldest_others(found, (3, 11, 7)) == [Path("c"), Path("a"), Path("d")]
    assert parsed("3.14.0rc2\n") == (3, 14, 0)
