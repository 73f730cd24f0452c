"""Args that are encrypted in the database: how they are told from others, sealed and opened.

They are an object with one key, `river_encrypt`, as River Pro has it. Its value is ours, base64 of

    1 byte    version, 1
    5 bytes   id of the key, so that it can be told which one is missing
    24 bytes  nonce, a random one for each job
    the rest  NaCl secretbox (XSalsa20 and Poly1305) of the args' JSON in UTF-8

The first six bytes are eight characters of base64, by which SQL can count the jobs of a key.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from riverui.errors import ConfigError, DecryptionError

if TYPE_CHECKING:
    from nacl.secret import SecretBox

SEALED = "river_encrypt"
"""The key of sealed args: River Pro's."""
KEY_BYTES = 32
"""Bytes of a key: NaCl's."""

_VERSION = b"\x01"
_HEADER = 6
"""Bytes of version and id of the key."""
_BEGIN = re.compile(rf'\s*\{{\s*"{SEALED}"\s*:\s*"([^"\\]*)("?)')
_WHOLE = re.compile(rf'\s*\{{\s*"{SEALED}"\s*:\s*"([^"\\]*)"\s*\}}\s*', re.DOTALL)


class OpenedArgs(str):
    """Args that were sealed: not shown where a row is printed, nor in errors about them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(opened args)'"


class SealedArgs(NamedTuple):
    """What can be told of sealed args without a key."""

    bytes: int | None
    """How many are sealed; None where the text was cut."""

    @property
    def words(self) -> str:
        """Return it as it is told in lists."""
        if self.bytes is None:
            return "sealed"
        return f"sealed: {self.bytes:,} {'byte' if self.bytes == 1 else 'bytes'}"


def sealed_args(text: str, size: int | None = None) -> SealedArgs | None:
    """Return what is known of sealed args, None for all others; `size` is that of the whole text
    where this one is cut.
    """
    if SEALED not in text[:40] or (found := _BEGIN.match(text)) is None:
        return None
    # A list's preview ends a value that it has cut in dots, which base64 does not know.
    value, whole = found[1], bool(found[2]) and not found[1].endswith("...")
    if not whole and size is None:
        return SealedArgs(None)
    # A cut text lacks the rest of the value, a quote and a brace.
    length = len(value) if whole else size - found.start(1) - 2  # type: ignore[operator]
    padding = len(value) - len(value.rstrip("=")) if whole else 0
    return SealedArgs(max(length * 3 // 4 - padding, 0))


def told_args(text: str) -> str:
    """Return args as a list shows them: in a word where they are sealed."""
    sealed = sealed_args(text)
    return text if sealed is None else sealed.words


def is_sealed(text: str) -> bool:
    """Return whether these whole args are sealed."""
    return SEALED in text and _WHOLE.fullmatch(text) is not None


class ArgsKeys:
    """Keys that seal and open args: the first one seals, each opens what it has sealed.

    ConfigError for what is no key, and where PyNaCl is not installed.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if isinstance(keys, bytes | str) or not keys:
            raise ConfigError("Encryption needs a list of keys, the one that encrypts first.")
        self._boxes: dict[bytes, SecretBox] = {}
        for key in keys:
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                # The key itself is not told.
                raise ConfigError(f"An encryption key must be {KEY_BYTES} bytes.")
            self._boxes[_key_id(key)] = _box(key)
        self._first = next(iter(self._boxes))

    def __repr__(self) -> str:
        return f"<ArgsKeys: {', '.join(self.ids)}>"

    @property
    def ids(self) -> Sequence[str]:
        """Return what sealed args begin with, for each key: eight characters of base64."""
        return [b64encode(_VERSION + key).decode() for key in self._boxes]

    def seal(self, args: str) -> str:
        """Return sealed args, as JSON text."""
        box = self._boxes[self._first].encrypt(args.encode())
        sealed = b64encode(_VERSION + self._first + bytes(box)).decode()
        return f'{{"{SEALED}":"{sealed}"}}'

    def open(self, args: str) -> OpenedArgs:
        """Return what was sealed. DecryptionError where it was not sealed by one of the keys, or is
        damaged.
        """
        from nacl.exceptions import CryptoError

        found = _WHOLE.fullmatch(args)
        try:
            sealed = b64decode(found[1], validate=True) if found else b""
        except (Base64Error, ValueError):
            sealed = b""
        if sealed[:1] != _VERSION:
            raise DecryptionError(
                f"The args are encrypted in a way that riverui does not know ({SEALED})."
            )
        box = self._boxes.get(sealed[1:_HEADER])
        if box is None:
            raise DecryptionError(
                f"The args are encrypted with the key {b64encode(sealed[:_HEADER]).decode()}, which"
                f" is none of those given here ({', '.join(self.ids)})."
            )
        try:
            return OpenedArgs(box.decrypt(sealed[_HEADER:]).decode())
        except (CryptoError, ValueError):
            raise DecryptionError("The encrypted args are damaged: they cannot be read.") from None


def keys_of(text: str) -> ArgsKeys:
    """Return the keys of a file's text: base64, one a line, the one that encrypts first; empty
    lines and those after `#` do not count. ConfigError for other text.
    """
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            key = b64decode(line, validate=True)
        except (Base64Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise ConfigError(f"line {number} is no encryption key: {KEY_BYTES} bytes in base64")
        keys.append(key)
    if not keys:
        raise ConfigError("there is no encryption key")
    return ArgsKeys(keys)


def _key_id(key: bytes) -> bytes:
    """Return what tells a key from others, and nothing about it."""
    return blake2b(key=key, digest_size=_HEADER - 1, person=b"riverui key id").digest()


def _box(key: bytes) -> SecretBox:
    try:
        from nacl.secret import SecretBox
    except ImportError:
        raise ConfigError("Encryption needs PyNaCl: install riverui[crypto].") from None
    return SecretBox(key)
