"""What a client and its child processes tell each other.

Each message is one frame: its length in four bytes, then its bytes. What the client sends is
pickled, as it names functions and classes of the program. What a child sends is MessagePack of the
types below and nothing else: whatever a broken child writes, reading it runs no code here.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from riverui.domain.jobs import JobRow

MOST_FRAME_BYTES = 128 * 1024 * 1024
"""Of one message of a child: four times the largest output, and what Postgres takes as metadata."""
_LENGTH = struct.Struct("!I")

Plain = str | int | float | bool | None
"""Values of an error or a log record that are taken along."""


class Setup(NamedTuple):
    """What a child has to know first."""

    path: Sequence[str]
    """The client's `sys.path`."""
    uses_django: bool
    """Whether Django is to be set up, with the settings that the environment names."""
    keeps_logs: bool
    """Whether what jobs log is kept with them, from INFO up."""
    levels: Mapping[str, tuple[int, bool]]
    """The level of each logger that has one or is disabled, and whether it is; the root's is ""."""
    disabled_level: int
    """What `logging.disable` was called with."""
    measures_memory: bool


class Load(NamedTuple):
    """How jobs of one kind are worked: `pickled` holds a worker or function, and the args' type."""

    key: int
    pickled: bytes


class Assignment(NamedTuple):
    """A job to be worked, by the worker loaded under the key."""

    key: int
    row: JobRow
    ephemeral: bool
    trace_context: Mapping[str, str] | None
    """OpenTelemetry's, as it travels between processes."""


class Ask(NamedTuple):
    """A job should end, for the reason that a `Cause` names."""

    job_id: int
    cause: str


class Terminate(NamedTuple):
    """The process should end now, in the middle of its job."""


Order = Setup | Load | Assignment | Ask | Terminate


class Ready(msgspec.Struct, tag=True):
    """The child waits for jobs."""


class Failure(msgspec.Struct):
    """An error of a job."""

    classes: list[tuple[str, str]]
    """Module and qualified name of its class, and of those that it is a subclass of."""
    text: str
    trace: str
    args: list[Plain]
    attributes: dict[str, Plain]
    cancels: bool = False
    """Whether it is a JobCancel."""
    interrupted: bool = False
    """Whether the job ended because it was asked to."""
    snoozes: timedelta | None = None


class Loaded(msgspec.Struct, tag=True):
    """A worker was loaded, unless it failed."""

    key: int
    failure: Failure | None


class Updated(msgspec.Struct, tag=True):
    """A job has set a key of its metadata, as JSON text."""

    job_id: int
    key: str
    text: str


class Completed(msgspec.Struct, tag=True):
    """A job was completed in a transaction of its own."""

    job_id: int
    at: datetime


class Progressed(msgspec.Struct, tag=True):
    """What an attempt would leave for the next one if it failed now: metadata, JSON text by key."""

    job_id: int
    updates: dict[str, str]


class Logged(msgspec.Struct, tag=True):
    """A log record; `job_id` is None outside of a job."""

    job_id: int | None
    name: str
    level: int
    message: str
    created: float
    path: str
    line: int
    function: str | None
    thread: str | None
    trace: str | None
    stack: str | None
    extra: dict[str, Plain]


class Ended(msgspec.Struct, tag=True):
    """An attempt is over."""

    job_id: int
    failure: Failure | None
    memory: int | None
    """Bytes that the child holds, where they are measured."""


class Interrupted(msgspec.Struct, tag=True):
    """The process ends in the middle of a job, as it was told to; `trace` is where that was."""

    job_id: int
    trace: str


Report = Ready | Loaded | Updated | Completed | Progressed | Logged | Ended | Interrupted

_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
_encoder = msgspec.msgpack.Encoder()


def order_frame(order: Order) -> bytes:
    """Return what a client sends."""
    return _framed(pickle.dumps(order, pickle.HIGHEST_PROTOCOL))


def report_frame(report: Report) -> bytes:
    """Return what a child sends; ValueError for what is too large."""
    encoded = _encoder.encode(report)
    if len(encoded) > MOST_FRAME_BYTES:
        raise ValueError(
            f"{len(encoded):,} bytes are too many for a job in a process of its own to hand back:"
            f" at most {MOST_FRAME_BYTES:,} can be."
        )
    return _framed(encoded)


def read_report(frame: bytes) -> Report:
    """Return what a child has sent; ValueError for anything else."""
    return _decoder.decode(frame)


def read_order(read: Any) -> Order | None:
    """Return the next order from a blocking stream, which has `read(size)`; None at its end."""
    if len(length := read(_LENGTH.size)) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(length)
    if len(frame := read(size)) < size:
        return None
    order: Order = pickle.loads(frame)  # noqa: S301 - the client is trusted
    return order


class Frames:
    """Takes in bytes as they come, and gives whole frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in what has come."""
        self._bytes += data

    def __iter__(self) -> Iterator[bytes]:
        """Give the frames that are complete, each once; ValueError for one that is too large."""
        at = 0
        try:
            while len(self._bytes) - at >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._bytes, at)
                if size > MOST_FRAME_BYTES:
                    raise ValueError(f"a message of {size:,} bytes")
                begin = at + _LENGTH.size
                if len(self._bytes) - begin < size:
                    return
                at = begin + size
                yield bytes(self._bytes[begin:at])
        finally:
            del self._bytes[:at]


def _framed(encoded: bytes) -> bytes:
    return _LENGTH.pack(len(encoded)) + encoded
