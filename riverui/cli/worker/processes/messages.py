"""Messages between a supervisor and its processes."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Lend(msgspec.Struct, tag=True):
    """Slots that the process may use from now on, by queue: as many as before, or more."""

    slots: dict[str, int]


class Stop(msgspec.Struct, tag=True):
    """The process should stop, from this phase on."""

    phase: int


class Ask(msgspec.Struct, tag=True):
    """A question for `health` or `metrics`."""

    id: int
    about: str


Order: TypeAlias = Lend | Stop | Ask


class Ready(msgspec.Struct, tag=True):
    """The program is loaded, and the database answers."""

    slots: dict[str, int]
    """Of each queue, in all processes together."""
    share: dict[str, int]
    """Those of this process."""


class Started(msgspec.Struct, tag=True):
    """The client works jobs."""

    client: str
    """Its id."""


class State(msgspec.Struct, tag=True):
    """Memory and jobs: both may be reasons to replace the process."""

    memory: int
    """Bytes."""
    worked: int
    """Jobs."""


class Taken(msgspec.Struct, tag=True):
    """Slots that jobs still use while the process stops, by queue."""

    slots: dict[str, int]


class Metrics(msgspec.Struct, tag=True):
    """The final metrics, before the process ends."""

    families: list[Any]
    """See `metrics.Family`."""


class Answer(msgspec.Struct, tag=True):
    """The answer to a question."""

    id: int
    found: Any


Report: TypeAlias = Ready | Started | State | Taken | Metrics | Answer
