"""Mailboxes are bounded by what is in them, and not only by how many notes that is."""

from __future__ import annotations

import pytest

from howdah.db.plan import ThreadWaker
from howdah.watch import mailbox
from howdah.watch.mailbox import Mailbox, Message


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "BYTES", 1_000)


def large(size: int = 600) -> Message:
    return Message("event", {"data": {"lines": ["x" * (size // 2), "y" * (size // 2)]}})


def test_a_reader_of_large_notes_that_is_too_slow_begins_anew() -> None:
    box = Mailbox(ThreadWaker(), lambda: None, loses=True)
    box.put(Message("joined", position="7"))
    for _ in range(5):
        box.put(large())
    assert box.is_lost
    assert [note.kind for note in box.take()] == ["joined", "lost"]


def test_large_notes_are_held_back_until_half_of_them_is_read() -> None:
    called: list[bool] = []
    box = Mailbox(ThreadWaker(), lambda: called.append(True))
    box.put(large())
    assert box.has_room()
    box.put(large())
    assert not box.has_room()
    box.take(1)
    assert called == []
    box.take(1)
    assert called == [True]
    assert box.has_room()


def test_a_note_that_is_replaced_weighs_once() -> None:
    box = Mailbox(ThreadWaker(), lambda: None, loses=True)
    for _ in range(10):
        box.put(large(), key="state")
    assert not box.is_lost
    assert len(box.take()) == 1
    assert box.has_room()
