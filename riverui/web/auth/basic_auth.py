"""HTTP basic authentication, and a limit on the guesses of a client."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol
from weakref import WeakValueDictionary

from starlette.requests import HTTPConnection

from riverui.errors import SignInNeeded, TooManyAttempts
from riverui.web.auth.failures import Failures, OwnFailures
from riverui.web.auth.rights import Access
from riverui.web.http.request_context import request_context

log = logging.getLogger("riverui.access")

_REMEMBERED = 1_000
"""Accepted pairs whose slow hash is not computed again: more than a dashboard has users."""


class Credentials(Protocol):
    """A list of user names and passwords."""

    def generation(self) -> object:
        """Return a value that changes whenever an accepted password may have become invalid."""
        ...

    async def check(self, user: bytes, password: bytes) -> bool:
        """Return whether the pair is on the list. An unknown user takes as long as a
        wrong password.
        """
        ...


class SingleUser:
    """The one user of RIVER_BASIC_AUTH_USER and RIVER_BASIC_AUTH_PASS."""

    def __init__(self, user: str, password: str) -> None:
        self._user = hashlib.sha256(user.encode()).digest()
        self._password = hashlib.sha256(password.encode()).digest()

    def generation(self) -> object:
        """Return a constant: settings do not change while the process runs."""
        return None

    async def check(self, user: bytes, password: bytes) -> bool:
        """Return whether this is the pair. Digests are compared, so that neither time nor length
        reveals how close a guess is.
        """
        same_user = hmac.compare_digest(hashlib.sha256(user).digest(), self._user)
        same_password = hmac.compare_digest(hashlib.sha256(password).digest(), self._password)
        return same_user and same_password


class BasicAuth:
    """HTTP basic authentication against one or more lists; each user may do everything."""

    def __init__(self, *lists: Credentials, failures: Failures | None = None) -> None:
        self._lists = lists
        # Slow hashes are checked once: later requests find a keyed digest of the accepted pair.
        self._key = secrets.token_bytes(32)
        self._accepted: OrderedDict[bytes, tuple[object, ...]] = OrderedDict()
        self._throttle = Throttle(failures=failures)
        # One check at a time per client, so that concurrent guesses are counted one by one.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, connection: HTTPConnection) -> Access:
        """Return the user named by the Authorization header. Raise SignInNeeded or
        TooManyAttempts.
        """
        pair = _basic_pair(connection.headers.get("authorization", ""))
        if pair is None:
            raise SignInNeeded
        user, password = pair
        digest = hashlib.blake2b(
            len(user).to_bytes(4) + user + password, key=self._key, digest_size=32
        ).digest()
        if not self._accepts(digest):
            client = connection.client.host if connection.client else ""
            async with self._turns.setdefault(client, asyncio.Lock()):
                # Another request may have brought the same pair during the wait.
                if not self._accepts(digest):
                    await self._sign_in(
                        client, digest, user, password, request_context(connection).id
                    )
        return Access(user=user.decode(errors="replace"))

    def _accepts(self, digest: bytes) -> bool:
        return self._accepted.get(digest) == self._generation()

    def _generation(self) -> tuple[object, ...]:
        """Return a value that changes with any of the lists of users."""
        return tuple(item.generation() for item in self._lists)

    async def _sign_in(
        self, client: str, digest: bytes, user: bytes, password: bytes, id: str
    ) -> None:
        generation = self._generation()
        if not self._throttle.allows(client):
            raise TooManyAttempts
        if not await self._check(user, password):
            self._throttle.failed(client)
            log.warning("sign-in refused", extra={"client": client, "id": id})
            raise SignInNeeded("Wrong user name or password.")
        self._remember(digest, generation)

    async def _check(self, user: bytes, password: bytes) -> bool:
        results = [await item.check(user, password) for item in self._lists]
        return any(results)

    def _remember(self, digest: bytes, generation: tuple[object, ...]) -> None:
        self._accepted[digest] = generation
        self._accepted.move_to_end(digest)
        while len(self._accepted) > _REMEMBERED:
            self._accepted.popitem(last=False)


class Throttle:
    """Bounds failed sign-ins per client: `burst` at once, then one more per `refill`."""

    def __init__(
        self,
        *,
        burst: int = 10,
        refill: timedelta = timedelta(seconds=6),
        clients: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        failures: Failures | None = None,
    ) -> None:
        self._burst = burst
        self._refill = refill.total_seconds()
        self._clock = clock
        self._failures = failures or OwnFailures(clients)

    def allows(self, client: str) -> bool:
        """Return whether this client may try again now."""
        return self._counting(client) <= self._burst - 1

    def failed(self, client: str) -> None:
        """Count one failure."""
        self._failures.set(client, self._counting(client) + 1, self._clock())

    def _counting(self, client: str) -> float:
        failures, at = self._failures.get(client)
        return max(0.0, failures - (self._clock() - at) / self._refill)


def _basic_pair(header: str) -> tuple[bytes, bytes] | None:
    """Return user and password of a basic Authorization header; None for any other header."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(token.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
