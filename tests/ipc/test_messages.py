"""Messages between a process and its child, whole, in parts, and broken."""

from __future__ import annotations

import asyncio
import io
import socket

import msgspec
import pytest

from riverui.ipc.child_process import Channel
from riverui.ipc.connection import MAX_FRAME_BYTES, Connection, Frames, frame


class Note(msgspec.Struct, tag=True):
    text: str


class Other(msgspec.Struct, tag=True):
    number: int


def test_messages_arrive_however_their_bytes_do() -> None:
    frames: Frames[Note | Other] = Frames(Note | Other)
    found: list[Note | Other] = []
    for byte in frame(Note("ä" * 100)) + frame(Other(1)) + frame(Note("")):
        frames.feed(bytes([byte]))
        while (message := frames.next()) is not None:
            found.append(message)
    assert found == [Note("ä" * 100), Other(1), Note("")]


@pytest.mark.parametrize(
    "data", [frame(Other(1)), b"\0\0\0\x03\xc1ab", (MAX_FRAME_BYTES + 1).to_bytes(4)]
)
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    frames: Frames[Note] = Frames(Note)
    frames.feed(data)
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's words
        frames.next()


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(ValueError, match="too many for one message"):
        frame(Note("x" * MAX_FRAME_BYTES))


def test_a_connection_ends_with_its_file() -> None:
    sent = io.BytesIO()
    sender: Connection[Note] = Connection(io.BytesIO(), sent, Note)
    sender.send(Note("a"))
    sender.send(Note("b"))
    receiver: Connection[Note] = Connection(io.BytesIO(sent.getvalue()[:-1]), io.BytesIO(), Note)
    assert receiver.receive() == Note("a")
    assert receiver.receive() is None


async def test_a_channel_handles_all_that_was_sent_before_its_end() -> None:
    ours, theirs = socket.socketpair()
    found: list[Note] = []
    errors: list[ValueError | None] = []
    channel: Channel[Note] = Channel(Note, found.append, errors.append)
    await channel.open(ours)
    with theirs:
        theirs.sendall(b"".join(frame(Note(str(number))) for number in range(1_000)))
    async with asyncio.timeout(20):
        await channel.closed.wait()
    assert [note.text for note in found] == [str(number) for number in range(1_000)]
    assert errors == [None]
    channel.send(Note("nobody reads this"))
