"""Sealed job data: AES-256-GCM, bound to the job's name and id.

Keys come from a file or from the environment, never from code or messages. The first one seals,
every one unseals, so that a key is rotated by putting a new one in front. Needs the extra
`encryption` (the package `cryptography`), which is imported at first use.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE: Final = "ATLEASTONCE_ENCRYPTION_KEYS"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_FORM: Final = f"allowed: base64 of {KEY_BYTES} bytes, one a line"


class EncryptionKeysError(ValueError):
    """Keys that cannot be used; the message says where they are, and quotes nothing of them."""


class UnsealError(ValueError):
    """Sealed data that cannot be read: its key is not at hand, or it was changed."""


class _Sealed(msgspec.Struct, frozen=True):
    """How sealed data travels; `key` is the first 16 digits of the key's SHA-256."""

    key: str
    nonce: bytes
    text: bytes


class EncryptionKeys:
    """The keys of an application, the newest first."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """Take keys of 32 bytes.

        Raises:
            EncryptionKeysError: There is none, or one of another length, or the package is missing.
        """
        _require_package()
        listed = tuple(keys)
        if not listed:
            raise EncryptionKeysError(f"no encryption keys; {_FORM}")
        for number, key in enumerate(listed, start=1):
            if len(key) != KEY_BYTES:
                raise EncryptionKeysError(f"encryption key {number} has {len(key)} bytes; {_FORM}")
        self._keys = {hashlib.sha256(key).hexdigest()[:16]: key for key in listed}
        self._newest = next(iter(self._keys))

    def __repr__(self) -> str:
        """Say how many there are; never what they are."""
        return f"EncryptionKeys({len(self._keys)})"

    @classmethod
    def from_file(cls, path: str | Path) -> EncryptionKeys:
        """Read a file that only its owner can read: one key a line, base64, the newest first.

        Raises:
            EncryptionKeysError: It cannot be read, is open to others, or holds something else.
        """
        place = Path(path)
        try:
            mode = place.stat().st_mode
            text = place.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise EncryptionKeysError(f"cannot read encryption keys {place}: {error}") from None
        if mode & 0o077:
            allowed = "allowed: 600 or 400"
            raise EncryptionKeysError(
                f"encryption keys {place} have mode {mode & 0o777:o}; {allowed}"
            )
        return cls(_decode(text, str(place)))

    @classmethod
    def from_environment(
        cls, variable: str = VARIABLE, environment: Mapping[str, str] = os.environ
    ) -> EncryptionKeys:
        """Read a variable: keys in base64 with blanks or line ends between, the newest first.

        Raises:
            EncryptionKeysError: It is not set, or holds something else.
        """
        text = environment.get(variable)
        if text is None:
            raise EncryptionKeysError(f"{variable} is not set; {_FORM}")
        return cls(_decode(text, variable))

    def seal(self, data: bytes, context: str) -> msgspec.Raw:
        """Seal data under the newest key; what is returned is JSON.

        Args:
            data: What to seal.
            context: What it belongs to; the same is needed to unseal it.
        """
        nonce = os.urandom(NONCE_BYTES)
        text = self._cipher(self._newest).encrypt(nonce, data, context.encode())
        return msgspec.Raw(msgspec.json.encode(_Sealed(self._newest, nonce, text)))

    def unseal(self, sealed: msgspec.Raw, context: str) -> bytes:
        """What was sealed.

        Raises:
            UnsealError: Its key is not among these, it was changed, or it belongs elsewhere.
        """
        # Late: nobody else needs the package.
        from cryptography.exceptions import InvalidTag

        try:
            found = msgspec.json.decode(sealed, type=_Sealed)
        except msgspec.DecodeError as error:
            raise UnsealError(f"its data is not sealed: {error}") from None
        if found.key not in self._keys:
            raise UnsealError(f"its data is sealed by key {found.key[:16]!r}, which is not at hand")
        if len(found.nonce) != NONCE_BYTES:
            raise UnsealError(f"its nonce has {len(found.nonce)} bytes, not {NONCE_BYTES}")
        try:
            return self._cipher(found.key).decrypt(found.nonce, found.text, context.encode())
        except InvalidTag:
            raise UnsealError("its sealed data was changed, or is another job's") from None

    def _cipher(self, name: str) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._keys[name])


def new_key() -> str:
    """A new random key, as file and environment have it."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")


def _require_package() -> None:
    if find_spec("cryptography") is None:
        text = "encrypted jobs need the package cryptography: install atleastonce[encryption]"
        raise EncryptionKeysError(text)


def _decode(text: str, where: str) -> list[bytes]:
    keys: list[bytes] = []
    for number, word in enumerate(text.split(), start=1):
        try:
            key = base64.b64decode(word, validate=True)
        except (binascii.Error, ValueError):
            raise EncryptionKeysError(f"{where}: key {number} is not base64; {_FORM}") from None
        if len(key) != KEY_BYTES:
            raise EncryptionKeysError(f"{where}: key {number} has {len(key)} bytes; {_FORM}")
        keys.append(key)
    if not keys:
        raise EncryptionKeysError(f"{where} holds no encryption keys; {_FORM}")
    return keys
