"""Users of a `.htpasswd` file: bcrypt, Apache's apr1 and SHA-1. The file is read again when it
changes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import bcrypt

from riverui.errors import ConfigError

log = logging.getLogger("riverui.access")

_BCRYPT = re.compile(rb"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_APR1 = re.compile(rb"\$apr1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}")
_SHA = re.compile(rb"\{SHA\}[A-Za-z0-9+/]{27}=")
# Apache's own Base64.
_APR1_ALPHABET = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Positions of a digest's bytes in the order in which Apache writes them, three at a time.
_APR1_GROUPS = ((0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5))


def parse(text: bytes, *, name: str) -> Mapping[bytes, bytes]:
    """Return user → hash of every line. Raise ConfigError naming the file and the invalid line."""
    users: dict[bytes, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith(b"#"):
            continue
        user, colon, hashed = line.partition(b":")
        where = f"{name}, line {number}"
        if not colon or not user:
            raise ConfigError(f"{where}: expected user:hash")
        if not any(known.fullmatch(hashed) for known in (_BCRYPT, _APR1, _SHA)):
            raise ConfigError(
                f"{where}: this is not a bcrypt, apr1 or SHA hash; make one with `htpasswd -B"
                f" {name} USER`"
            )
        if user in users:
            raise ConfigError(f"{where}: this user is already listed")
        users[user] = hashed
    if not users:
        raise ConfigError(f"{name} has no users; add one with `htpasswd -B {name} USER`")
    return users


def verify(password: bytes, hashed: bytes) -> bool:
    """Return whether the password matches this hash. A costly bcrypt may take seconds."""
    if hashed.startswith(b"$2"):
        # bcrypt reads 72 bytes and nothing after a NUL: a longer password would match by its
        # beginning alone.
        return len(password) <= 72 and b"\0" not in password and bcrypt.checkpw(password, hashed)
    if hashed.startswith(b"{SHA}"):
        digest = hashlib.sha1(password, usedforsecurity=False).digest()
        return hmac.compare_digest(base64.b64encode(digest), hashed[5:])
    salt = hashed.split(b"$")[2]
    return hmac.compare_digest(apr1(password, salt), hashed)


def cost(hashed: bytes) -> bytes:
    """Return what determines the time of `verify`: equal for hashes that take equally long."""
    if hashed.startswith(b"$2"):
        return hashed[4:6]
    return b"sha" if hashed.startswith(b"{SHA}") else b"apr1"


def apr1(password: bytes, salt: bytes) -> bytes:
    """Return Apache's MD5 crypt of the password, as `htpasswd -m` writes it."""
    mixed = _md5(password + salt + password)
    start = password + b"$apr1$" + salt
    start += (mixed * (len(password) // 16 + 1))[: len(password)]
    bits = len(password)
    while bits:
        start += b"\0" if bits & 1 else password[:1]
        bits >>= 1
    digest = _md5(start)
    for turn in range(1000):
        step = password if turn & 1 else digest
        if turn % 3:
            step += salt
        if turn % 7:
            step += password
        digest = _md5(step + (digest if turn & 1 else password))
    text = b"".join(
        _sixbits(digest[a] << 16 | digest[b] << 8 | digest[c], 4) for a, b, c in _APR1_GROUPS
    )
    return b"$apr1$" + salt + b"$" + text + _sixbits(digest[11], 2)


class HtpasswdFile:
    """The users of one file. Creation raises ConfigError if the file cannot be read or used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._users: Mapping[bytes, bytes] = {}
        self._stat: tuple[int, ...] | None = None
        # Two at a time: a flood of guesses must not take every core and thread from signed-in
        # users.
        self._slots = asyncio.Semaphore(2)
        self._read()

    def generation(self) -> object:
        """Return a value that changes with the file, which is checked on each call. A file that
        became invalid admits no one.
        """
        try:
            changed = _stat(self._path) != self._stat
        except OSError:
            changed = True
        if changed:
            try:
                self._read()
            except ConfigError as error:
                if self._users:
                    log.error("%s; no one can sign in until this is fixed", error)
                self._users = {}
        return self._stat if self._users else object()

    async def check(self, user: bytes, password: bytes) -> bool:
        """Return whether the pair matches; the hash is computed in a thread."""
        if not self._users:
            return False
        known = self._users.get(user)
        # Verify one hash of each cost, with the user's own in place of its like, so that the time
        # of a wrong password reveals neither an unknown name nor the cost of a user's hash.
        hashes = {cost(hashed): hashed for hashed in self._users.values()}
        if known is not None:
            hashes[cost(known)] = known
        async with self._slots:
            fitting = await asyncio.to_thread(_fitting, password, tuple(hashes.values()))
        return known in fitting

    def _read(self) -> None:
        try:
            stat = _stat(self._path)
            text = self._path.read_bytes()
        except OSError as error:
            self._stat = None
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from None
        self._stat = stat
        self._users = parse(text, name=str(self._path))


def _fitting(password: bytes, hashes: Sequence[bytes]) -> Sequence[bytes]:
    return [hashed for hashed in hashes if verify(password, hashed)]


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _sixbits(value: int, count: int) -> bytes:
    return bytes(_APR1_ALPHABET[value >> 6 * place & 63] for place in range(count))


def _stat(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
