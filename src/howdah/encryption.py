"""A codec that encrypts stored values: ``JobQueue(codec=EncryptedCodec(keys))``. Needs the extra ``howdah[encryption]``.

Each value is encrypted with AES-256-GCM under a key of its own, which is derived from the given key and a random nonce
of 192 bits as XAES-256-GCM specifies (C2SP). So nonces can be random. With the 96 bits of plain AES-GCM a busy queue
would have to change its key every few days, because two equal nonces under one key break it.

The stored form is ``{"howdah.sealed": "base64 of nonce and ciphertext", "key": "id of the key"}``. The id is derived from
the key, so keys need no numbers that could be mixed up. Values are not compressed: if an attacker controls a part of a
value, its compressed length would leak the rest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from howdah.errors import HowdahError, InvalidOption, KeyMissing, Undecodable

ENVIRONMENT: Final = "HOWDAH_ENCRYPTION_KEYS"
KEY_BYTES: Final = 32

SEALED: Final = "howdah.sealed"
_FIELDS: Final = frozenset({SEALED, "key"})
_NONCE: Final = 24
_TAG: Final = 16
# Bound to every ciphertext: with another purpose or format, it does not decrypt even under the same key.
_PURPOSE: Final = b"howdah 1"


def new_key() -> str:
    """A new random key, as text."""
    return base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


class EncryptedCodec:
    """Encrypts with the first key, and decrypts with the key that each value was encrypted with.

    keys: each is 32 random bytes, or these as urlsafe base64 (``new_key()`` makes one). One key, several, or a str with
        commas between them.
    allow_plain: also read values that are not encrypted, such as those from before encryption was switched on. Then every
        login that can write to the tables can forge values without a key.
    """

    def __init__(self, keys: str | bytes | Iterable[str | bytes], *, allow_plain: bool = False) -> None:
        made = [_Key(secret) for secret in _secrets(keys)]
        if not made:
            raise InvalidOption("no key was given: howdah.encryption.new_key() makes one")
        self._keys = {key.id: key for key in made}
        if len(self._keys) < len(made):
            raise InvalidOption("the same key was given twice")
        self._first = made[0]
        self._allow_plain = allow_plain

    @classmethod
    def from_environment(
        cls, name: str = ENVIRONMENT, *, allow_plain: bool = False, environ: Mapping[str, str] = os.environ
    ) -> EncryptedCodec:
        """A codec with the keys of an environment variable, which has commas between them."""
        if not environ.get(name, "").strip():
            raise InvalidOption(f"{name} is not set: it holds the keys of this queue, with commas between them")
        try:
            return cls(environ[name], allow_plain=allow_plain)
        except InvalidOption as error:
            raise InvalidOption(f"{name}, which holds keys with commas between them: {error}") from None

    @property
    def key_ids(self) -> list[str]:
        """The ids of the keys, as stored beside encrypted values; the first one encrypts."""
        return list(self._keys)

    def encode(self, value: Any) -> Any:
        """The value, encrypted with the first key, beside that key's id."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return {SEALED: base64.b64encode(self._first.seal(text.encode())).decode(), "key": self._first.id}

    def decode(self, value: Any) -> Any:
        """The decrypted value. Raises KeyMissing, or Undecodable if it was changed or never encrypted."""
        if not isinstance(value, dict) or value.keys() != _FIELDS:
            if self._allow_plain:
                return value
            raise Undecodable(
                "this value is not encrypted: it was stored without a key. To read such values, pass allow_plain=True"
            )
        key = self._keys.get(value["key"]) if isinstance(value["key"], str) else None
        if key is None:
            key_id = str(value["key"])[:40]
            raise KeyMissing(
                f"this value is encrypted with the key {key_id}, which was not given; the given keys are: {', '.join(self._keys)}",
                key_id=key_id,
            )
        return json.loads(key.open(value[SEALED]))

    def __repr__(self) -> str:
        return f"EncryptedCodec({', '.join(self._keys)})"


class _Key:
    """A key of XAES-256-GCM."""

    def __init__(self, secret: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError as error:
            raise HowdahError("encryption needs an extra. Run: pip install 'howdah[encryption]'") from error
        self.id = hashlib.sha256(b"howdah key id" + secret).hexdigest()[:12]
        self._aes_gcm = AESGCM
        self._invalid = InvalidTag
        # ECB is safe here: it encrypts single blocks of our own making, as in CMAC.
        self._block = Cipher(algorithms.AES(secret), modes.ECB())
        self._mask = _doubled(self._block.encryptor().update(bytes(16)))

    def seal(self, text: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        sealed: bytes = self._derived(nonce).encrypt(nonce[12:], text, _PURPOSE)
        return nonce + sealed

    def open(self, sealed: Any) -> bytes:
        try:
            message = base64.b64decode(sealed, validate=True)
            if len(message) < _NONCE + _TAG:
                raise ValueError("too short")
            nonce = message[:_NONCE]
            opened: bytes = self._derived(nonce).decrypt(nonce[12:], message[_NONCE:], _PURPOSE)
        except (self._invalid, ValueError, TypeError) as error:
            raise Undecodable(f"this value was changed after it was encrypted (with the key {self.id})") from error
        return opened

    def _derived(self, nonce: bytes) -> Any:
        blocks = b"".join(
            bytes(a ^ b for a, b in zip(self._mask, b"\0" + number + b"X\0" + nonce[:12], strict=True))
            for number in (b"\1", b"\2")
        )
        return self._aes_gcm(self._block.encryptor().update(blocks))


def _doubled(block: bytes) -> bytes:
    """Multiply by two in the finite field of CMAC."""
    doubled = int.from_bytes(block) << 1
    return (doubled & ((1 << 128) - 1) ^ (0x87 if doubled >> 128 else 0)).to_bytes(16)


def _secrets(keys: str | bytes | Iterable[str | bytes]) -> list[bytes]:
    if isinstance(keys, str):
        keys = [part for each in keys.split(",") if (part := each.strip())]
    elif isinstance(keys, bytes):
        keys = [keys]
    # No message repeats the input: it may be a key with a typo.
    try:
        return [_secret(key, number) for number, key in enumerate(keys, start=1)]
    except TypeError:
        raise InvalidOption(f"keys are str or bytes, not a {type(keys).__name__}") from None


def _secret(key: object, number: int) -> bytes:
    if isinstance(key, str):
        try:
            secret = base64.b64decode(f"{key}{'=' * (-len(key) % 4)}", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise InvalidOption(
                f"key {number} is not urlsafe base64: howdah.encryption.new_key() makes a key"
            ) from None
    elif isinstance(key, bytes):
        secret = key
    else:
        raise InvalidOption(f"key {number} is a {type(key).__name__}: a key is a str or bytes")
    if len(secret) != KEY_BYTES:
        size = "1 byte" if len(secret) == 1 else f"{len(secret)} bytes"
        raise InvalidOption(f"key {number} has {size}: a key has {KEY_BYTES}")
    return secret
