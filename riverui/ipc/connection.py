"""Messages between a process and its child.

A message is a `msgspec.Struct` with a tag, sent as a frame: the length of its MessagePack in four
bytes, then the MessagePack. Decoding runs no code, whatever a broken child sends.
"""

from __future__ import annotations

import struct
import threading
from typing import IO, Any, Generic, TypeVar

import msgspec

M = TypeVar("M")

MAX_FRAME_BYTES = 128 * 1024 * 1024
"""Size limit of one message: four times the largest output of a job."""
_LENGTH = struct.Struct("!I")

_encode = msgspec.msgpack.Encoder().encode


def frame(message: object) -> bytes:
    """Encode a message as a frame; ValueError if it is too large."""
    encoded = _encode(message)
    if len(encoded) > MAX_FRAME_BYTES:
        raise ValueError(
            f"{len(encoded):,} bytes are too many for one message between processes: at most"
            f" {MAX_FRAME_BYTES:,} fit."
        )
    return _LENGTH.pack(len(encoded)) + encoded


class Frames(Generic[M]):
    """Decodes messages from bytes; `types` are the allowed messages."""

    def __init__(self, types: Any) -> None:
        self._bytes = bytearray()
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(types)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._bytes += data

    def next(self) -> M | None:
        """Return the next complete message, or None if more bytes are needed; ValueError if it is
        too large or of another type.
        """
        if len(self._bytes) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._bytes)
        if size > MAX_FRAME_BYTES:
            raise ValueError(f"a message of {size:,} bytes")
        end = _LENGTH.size + size
        if len(self._bytes) < end:
            return None
        # msgspec's errors are ValueErrors.
        message = self._decoder.decode(self._bytes[_LENGTH.size : end])
        del self._bytes[:end]
        return message


class Connection(Generic[M]):
    """A blocking end: one thread receives, and any thread may send."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes], types: Any) -> None:
        """Use buffered files, which read and write all that they are asked to."""
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(types)
        self._reader = reader
        self._sending = threading.Lock()
        self._writer = writer

    def send(self, message: object) -> None:
        """Send a message; ValueError if it is too large, OSError if the other end is closed."""
        data = frame(message)
        with self._sending:
            self._writer.write(data)
            self._writer.flush()

    def receive(self) -> M | None:
        """Return the next message, or None at the end; ValueError for invalid data."""
        if len(length := self._reader.read(_LENGTH.size)) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack(length)
        if len(encoded := self._reader.read(size)) < size:
            return None
        return self._decoder.decode(encoded)
