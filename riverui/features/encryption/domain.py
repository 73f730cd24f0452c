"""Encrypt args in the database, and decrypt them.

They are an object with the key `river_encrypt`, as in River Pro. Its value is ours: base64 of

    1 byte    version, 1
    5 bytes   id of the key, to report which one is missing
    24 bytes  nonce, a random one for each job
    the rest  NaCl secretbox (XSalsa20 and Poly1305) of the args' JSON in UTF-8

The first six bytes are eight characters of base64, so SQL can count the jobs of a key.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from riverui.domain.sealed_args import SEALED, OpenedArgs, sealed_value
from riverui.errors import ConfigError, DecryptionError

if TYPE_CHECKING:
    from nacl.secret import SecretBox

KEY_BYTES = 32
"""Length of a key in bytes, as NaCl requires."""

_VERSION = b"\x01"
_HEADER = 6
"""Length of version and key id in bytes."""


class ArgsKeys:
    """Keys that encrypt and decrypt args: the first encrypts, each decrypts what it has encrypted.

    Raises ConfigError for an invalid key, and if PyNaCl is not installed.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if isinstance(keys, bytes | str) or not keys:
            raise ConfigError("Encryption needs a list of keys, the one that encrypts first.")
        self._boxes: dict[bytes, SecretBox] = {}
        for key in keys:
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                # Do not show the key itself.
                raise ConfigError(f"An encryption key must be {KEY_BYTES} bytes.")
            self._boxes[_key_id(key)] = _box(key)
        self._first = next(iter(self._boxes))

    def __repr__(self) -> str:
        return f"<ArgsKeys: {', '.join(self.ids)}>"

    @property
    def ids(self) -> Sequence[str]:
        """Return the prefix of encrypted args for each key: eight characters of base64."""
        return [b64encode(_VERSION + key).decode() for key in self._boxes]

    def seal(self, args: str) -> str:
        """Return the encrypted args as JSON text."""
        box = self._boxes[self._first].encrypt(args.encode())
        sealed = b64encode(_VERSION + self._first + bytes(box)).decode()
        return f'{{"{SEALED}":"{sealed}"}}'

    def open(self, args: str) -> OpenedArgs:
        """Return the decrypted args. Raise DecryptionError if they were not encrypted by one of the
        keys, or are damaged.
        """
        from nacl.exceptions import CryptoError

        try:
            sealed = b64decode(sealed_value(args) or "", validate=True)
        except (Base64Error, ValueError):
            sealed = b""
        if sealed[:1] != _VERSION:
            raise DecryptionError(
                f"The args are encrypted in a format that riverui does not know ({SEALED})."
            )
        box = self._boxes.get(sealed[1:_HEADER])
        if box is None:
            raise DecryptionError(
                f"The args are encrypted with the key {b64encode(sealed[:_HEADER]).decode()}, which"
                f" is not one of the given keys ({', '.join(self.ids)})."
            )
        try:
            return OpenedArgs(box.decrypt(sealed[_HEADER:]).decode())
        except (CryptoError, ValueError):
            raise DecryptionError("The encrypted args are damaged: they cannot be read.") from None


def keys_of(text: str) -> ArgsKeys:
    """Return the keys in a file's text: base64, one per line, the encrypting one first. Ignore
    empty lines and text after `#`. Raise ConfigError for other text.
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
    """Return an id that identifies the key without revealing it."""
    return blake2b(key=key, digest_size=_HEADER - 1, person=b"riverui key id").digest()


def _box(key: bytes) -> SecretBox:
    try:
        from nacl.secret import SecretBox
    except ImportError:
        raise ConfigError("Encryption needs PyNaCl: install riverui[crypto].") from None
    return SecretBox(key)
