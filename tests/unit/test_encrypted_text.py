"""Errors that are encrypted, as the command shows them without a key."""

from __future__ import annotations

import pytest

from howdah.cli.render.terminal_escape import ENCRYPTED, error_text
from howdah.encryption import EncryptedCodec, new_key
from howdah.model.codec import encode_text


def test_an_encrypted_error_is_shown_as_encrypted_with_the_suffix_of_the_database() -> None:
    stored = encode_text(EncryptedCodec(new_key()), "ValueError: no such customer")
    assert error_text(stored) == ENCRYPTED
    assert error_text(f"{stored} (worker died 1 times)") == f"{ENCRYPTED} (worker died 1 times)"


@pytest.mark.parametrize("plain", ["", "ValueError: no", '{"encoded": 7}', '{"encoded": {"howdah.sealed": "AAA'])
def test_what_only_looks_like_it_is_shown_as_it_is(plain: str) -> None:
    assert error_text(plain) == plain
