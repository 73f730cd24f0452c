"""API tokens: stored as digests in a file or a setting, each with its own rights."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Sequence
from inspect import isawaitable
from pathlib import Path

from msgspec import Struct
from starlette.requests import HTTPConnection

from riverui.errors import ConfigError, SignInNeeded, TooManyAttempts
from riverui.web.auth.basic_auth import Throttle
from riverui.web.auth.failures import Failures
from riverui.web.auth.rights import (
    EVERYTHING,
    READ_ONLY,
    RIGHTS,
    Access,
    Authenticate,
    Decision,
)
from riverui.web.http.request_context import request_context

log = logging.getLogger("riverui.access")

PREFIX = "riverui_"
"""The prefix of every token, so that a leaked one is recognized."""

_COUNTED = len(PREFIX) + 6
"""Characters of a wrong token by which its guesses are counted: enough to distinguish tokens, and
too few to be of use to a reader of this process's memory.
"""

_NAME = re.compile(r"[^\s:,]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SETS = {"all": EVERYTHING, "read": READ_ONLY}


class Token(Struct, frozen=True, kw_only=True):
    """The name and rights of a token."""

    name: str
    digest: bytes
    rights: frozenset[str]


def new_token(name: str, rights: str) -> tuple[str, str]:
    """Return a random token and its line for the configuration. Raise ConfigError for an invalid
    name or right.
    """
    token = PREFIX + secrets.token_urlsafe(32)
    line = f"{name}:{_digest(token).hex()}:{rights}"
    parse(line, where="the token")
    return token, line


def parse(text: str, *, where: str) -> tuple[Token, ...]:
    """Return the tokens of lines `name:sha256:rights`, separated by newlines or commas. Raise
    ConfigError naming the invalid line.
    """
    tokens: list[Token] = []
    lines = [line.strip() for line in re.split(r"[\n,]", text)]
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        name, digest, rights = [*line.split(":"), "", ""][:3]
        if (
            line.count(":") != 2
            or not _NAME.fullmatch(name)
            or not _DIGEST.fullmatch(digest.lower())
        ):
            raise ConfigError(
                f"{where}, line {number}: expected name:sha256:rights, as `riverui token` prints it"
            )
        if any(name == token.name for token in tokens):
            raise ConfigError(f"{where}, line {number}: duplicate token name {name}")
        tokens.append(Token(name=name, digest=bytes.fromhex(digest), rights=rights_of(rights)))
    return tuple(tokens)


def rights_of(text: str) -> frozenset[str]:
    """Return the rights for `all`, `read` or names joined by `+`. Raise ConfigError for
    any other.
    """
    found: set[str] = set()
    for word in text.split("+"):
        if word not in _SETS and word not in RIGHTS:
            raise ConfigError(
                f"unknown right {word!r}: use all, read, or any of {', '.join(RIGHTS)} joined by +"
            )
        found |= _SETS.get(word, {word})
    return frozenset(found)


def is_token(connection: HTTPConnection) -> bool:
    """Return whether the request carries a token of ours. No browser sends one by itself, so such a
    request is not a cross-site forgery.
    """
    return bool(_shown(connection))


class Tokens:
    """The tokens of a text or of a file, which is read again when it changes. Creation
    raises ConfigError.
    """

    def __init__(self, source: str | Path) -> None:
        self._path = source if isinstance(source, Path) else None
        self._stat: tuple[int, ...] | None = None
        self._tokens = (
            parse(source, where="RIVERUI_API_TOKENS") if isinstance(source, str) else self._read()
        )

    def find(self, shown: str) -> Token | None:
        """Return the token that was sent; None if unknown. All are compared, each in
        constant time.
        """
        digest = _digest(shown)
        found = None
        for token in self._current():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def _current(self) -> Sequence[Token]:
        if self._path is not None:
            try:
                if _stat(self._path) != self._stat:
                    self._tokens = self._read()
            except (OSError, ConfigError) as error:
                if self._tokens:
                    log.error("%s: no token is accepted until this is fixed", error)
                self._tokens, self._stat = (), None
        return self._tokens

    def _read(self) -> tuple[Token, ...]:
        assert self._path is not None
        try:
            self._stat = _stat(self._path)
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"cannot read {self._path}: {reason}") from None
        return parse(text, where=str(self._path))


class TokenAuth:
    """Lets in requests with a token and passes all others to `otherwise`; without it,
    they must sign in.
    """

    def __init__(
        self,
        tokens: Tokens,
        otherwise: Authenticate | None,
        *,
        failures: tuple[Failures | None, Failures | None] = (None, None),
    ) -> None:
        self._tokens = tokens
        self._otherwise = otherwise
        self._throttles = tuple(Throttle(failures=each) for each in failures)
        """Count wrong tokens by address, and by their beginning."""

    async def __call__(self, connection: HTTPConnection) -> Decision:
        """Return the token's rights under its name. Raise SignInNeeded or TooManyAttempts for an
        unknown token.
        """
        shown = _shown(connection)
        if not shown:
            if self._otherwise is None:
                raise SignInNeeded
            answer = self._otherwise(connection)
            return await answer if isawaitable(answer) else answer
        # A token is too long to be guessed, so a right one passes whatever failures its address
        # has.
        if token := self._tokens.find(shown):
            return Access(user=token.name, rights=token.rights, token=True)
        client = connection.client.host if connection.client else ""
        guesses = (client, shown[:_COUNTED])
        if not all(
            throttle.allows(guess) for throttle, guess in zip(self._throttles, guesses, strict=True)
        ):
            raise TooManyAttempts
        for throttle, guess in zip(self._throttles, guesses, strict=True):
            throttle.failed(guess)
        log.warning("token refused", extra={"client": client, "id": request_context(connection).id})
        raise SignInNeeded("Unknown API token.")


def _shown(connection: HTTPConnection) -> str:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.startswith(PREFIX) else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _stat(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
