"""Counters of failed sign-ins, in this process or shared by several processes."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import MutableSequence
from typing import Protocol

_SLOTS = 4_096
"""Clients that the shared memory can count; beyond that, a new one replaces another."""
_CELLS = 3
"""Numbers per slot: the client's key, the failures, and when they were counted."""


class Failures(Protocol):
    """A client's remaining failures, and when they were computed (seconds of a clock)."""

    def get(self, client: str) -> tuple[float, float]:
        """Return a client's failures and their time; zeros if it has none."""
        ...

    def set(self, client: str, failures: float, at: float) -> None:
        """Store a client's failures."""
        ...


class OwnFailures:
    """Counts in this process. Beyond `clients`, it forgets those counted longest ago."""

    def __init__(self, clients: int = 10_000) -> None:
        self._clients = clients
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def get(self, client: str) -> tuple[float, float]:
        """Return a client's failures and their time; zeros if it has none."""
        return self._known.get(client, (0.0, 0.0))

    def set(self, client: str, failures: float, at: float) -> None:
        """Store a client's failures."""
        self._known[client] = (failures, at)
        self._known.move_to_end(client)
        while len(self._known) > self._clients:
            self._known.popitem(last=False)


class SharedFailures:
    """Counts in memory that the processes of one machine share.

    Nothing is locked, as a process may be killed at any moment: of two simultaneous failures one
    may be lost. Clients are identified by a digest under a key of this run.
    """

    NUMBERS = _SLOTS * _CELLS
    """How many numbers (doubles) the shared memory has to hold."""

    def __init__(self, memory: MutableSequence[float]) -> None:
        self._memory = memory
        self._key = secrets.token_bytes(32)

    def get(self, client: str) -> tuple[float, float]:
        """Return a client's failures and their time; zeros if it has none."""
        place, name = self._slot(client)
        found, failures, at = self._memory[place : place + _CELLS]
        return (failures, at) if found == name else (0.0, 0.0)

    def set(self, client: str, failures: float, at: float) -> None:
        """Store a client's failures."""
        place, name = self._slot(client)
        self._memory[place : place + _CELLS] = [name, failures, at]

    def _slot(self, client: str) -> tuple[int, float]:
        """Return a client's slot and its key there, a whole number below 2^52."""
        digest = hashlib.blake2b(
            client.encode(errors="replace"), key=self._key, digest_size=16
        ).digest()
        slot = int.from_bytes(digest[:8]) % _SLOTS
        return slot * _CELLS, float(1 + (int.from_bytes(digest[8:]) >> 12))
