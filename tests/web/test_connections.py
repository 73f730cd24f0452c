"""Connections of our own server, whose other ends misbehave: real sockets against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from riverui import create_app
from riverui.cli.serve.server import connections_possible, listen
from riverui.storage.interface import Driver
from riverui.web.http import connections
from riverui.web.http.connections import server_config
from tests.factory import Make
from tests.test_together import until
from tests.web.stand_ins import DeadDriver

SOON = 10.0
"""Seconds within which what must happen does, on the busiest machine; the limits are far below."""
REQUEST, STALL = 0.3, 0.5
"""The time limits of these tests, in seconds."""
GET = b"GET /help HTTP/1.1\r\nhost: x\r\n\r\n"
POST = (
    b"POST /preferences HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n"
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Served:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._opened: list[asyncio.StreamWriter] = []

    async def open(self, sent: bytes = b"", *, holds: int = 0) -> Streams:
        """Open a connection and send this; `holds` is how many bytes its kernel holds for the
        reader.
        """
        sock = socket.socket()
        sock.setblocking(False)
        if holds:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, holds)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock)
        self._opened.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def rest(self, sent: bytes) -> bytes:
        """All that comes back until the server hangs up."""
        reader, _ = await self.open(sent)
        return await asyncio.wait_for(reader.read(), SOON)

    async def status(self, path: str = "/help") -> int:
        """Return what a new connection is answered; 0 where it is closed at once."""
        reader, writer = await self.open(GET.replace(b"/help", path.encode()))
        try:
            line = await asyncio.wait_for(reader.readline(), SOON)
            return int(line.split()[1]) if line else 0
        except ConnectionResetError:
            return 0
        finally:
            writer.close()

    def close(self) -> None:
        for writer in self._opened:
            writer.close()


@asynccontextmanager
async def serving(app: ASGIApp, **options: Any) -> AsyncIterator[Served]:
    with listen("127.0.0.1", 0) as sock:
        config = server_config(
            app, lifespan="off", timeout_graceful_shutdown=1, timeout_keep_alive=60, **options
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        served = Served(sock.getsockname()[1])
        try:
            await until(lambda: server.started or task.done())
            yield served
        finally:
            served.close()
            server.should_exit = True
            await task


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", REQUEST)
    monkeypatch.setattr(connections, "STALL_SECONDS", STALL)


@pytest.fixture
def app() -> Starlette:
    return create_app(DeadDriver(dead=False), no_auth=True)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return one answer's body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SOON)
    (length,) = [
        line.partition(b":")[2]
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    ]
    return await asyncio.wait_for(reader.readexactly(int(length)), SOON)


@pytest.mark.usefixtures("short")
async def test_a_request_that_does_not_arrive_ends_its_connection(app: Starlette) -> None:
    sent = {
        "nothing": b"",
        "a letter": b"G",
        "half a head": GET[:-1],
        "half a long head": GET[:-2] + b"x-pad: " + b"y" * 5000,
        "half a body": POST + b"content-length: 11\r\n\r\ntheme=",
        "half a chunk": POST + b"transfer-encoding: chunked\r\n\r\n5\r\nthe",
    }
    async with serving(app) as served:
        answers = await asyncio.gather(*map(served.rest, sent.values()))
    assert dict(zip(sent, answers, strict=True)) == dict.fromkeys(sent, b"")


@pytest.mark.usefixtures("short")
async def test_a_request_that_trickles_in_ends_its_connection(app: Starlette) -> None:
    async with serving(app) as served:
        reader, writer = await served.open()

        async def trickle() -> None:
            while not reader.at_eof():
                writer.write(b"x")
                await asyncio.sleep(REQUEST / 10)

        trickling = asyncio.create_task(trickle())
        try:
            # What was sent after the end is answered with a reset.
            with suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), SOON)
        finally:
            trickling.cancel()


@pytest.mark.usefixtures("short")
async def test_half_a_request_after_a_whole_one_ends_the_connection(app: Starlette) -> None:
    async with serving(app) as served:
        for second in (GET[:-2], b"\r\n"):
            reader, writer = await served.open(GET)
            assert await answer(reader)
            writer.write(second)
            assert await asyncio.wait_for(reader.read(), SOON) == b""
        # Both at once.
        found = await served.rest(GET + GET[:-2])
        assert found.count(b"HTTP/1.1 200 ") == 1


@pytest.mark.usefixtures("short")
async def test_an_idle_connection_stays(app: Starlette) -> None:
    body = b"theme=light"
    posted = POST + b"content-length: %d\r\n\r\n%s" % (len(body), body)
    async with serving(app) as served:
        reader, writer = await served.open()
        for sent in (GET, posted, GET):
            writer.write(sent)
            if sent is GET:
                assert await answer(reader)
            else:
                assert b" 303 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SOON)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 1.5 * REQUEST)
        # A body that nobody wanted to read: the connection may end, but not with words.
        foreign = POST + b"origin: https://elsewhere.test\r\ncontent-length: 11\r\n\r\ntheme="
        writer.write(foreign)
        assert b"another origin" in await answer(reader)
        assert await asyncio.wait_for(reader.read(), SOON) == b""


@pytest.mark.usefixtures("short")
async def test_an_answer_may_take_longer_than_a_request() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(3 * REQUEST)
        await PlainTextResponse("done")(scope, receive, send)

    async with serving(slow) as served:
        reader, writer = await served.open(GET)
        # What looks like a further request does not cut it off.
        writer.write(b"\r\n")
        assert await answer(reader) == b"done"


class Sender:
    """Sends a large body in pieces to each who asks, and notes who left."""

    def __init__(self, megabytes: int) -> None:
        self.body = b"x" * (megabytes * 1_000_000)
        self.left = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = str(len(self.body)).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        for start in range(0, len(self.body), 64 * 1024):
            piece = self.body[start : start + 64 * 1024]
            more = start + len(piece) < len(self.body)
            await send({"type": "http.response.body", "body": piece, "more_body": more})
        await receive()
        message = await receive()
        assert message["type"] == "http.disconnect"
        self.left += 1


@pytest.mark.long
@pytest.mark.usefixtures("short")
async def test_readers_who_do_not_read_hold_little_and_are_dropped() -> None:
    sender = Sender(30)
    async with serving(sender) as served:
        tracemalloc.start()
        try:
            # Our own reader stops at its limit of 64 KiB, so nothing is read but what the kernels
            # hold.
            connections = [await served.open(GET) for _ in range(20)]
            await until(lambda: sender.left == len(connections), seconds=SOON)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20 * 1_000_000, f"{peak:,} bytes for readers who do not read"
        reader, _ = connections[0]
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := await asyncio.wait_for(reader.read(10_000), SOON):
                received += len(piece)
        assert received < len(sender.body)


@pytest.mark.long
@pytest.mark.usefixtures("short")
async def test_a_reader_who_keeps_reading_is_not_dropped() -> None:
    sender = Sender(5)
    async with serving(sender) as served:
        reader, _ = await served.open(GET, holds=20_000)
        await reader.readuntil(b"\r\n\r\n")
        received, began = 0, asyncio.get_running_loop().time()
        while received < len(sender.body):
            received += len(await asyncio.wait_for(reader.readexactly(100_000), SOON))
            assert received > len(sender.body) - 1_000_000 or not sender.left, "it was sent at once"
            # The pace of the reader, not a wait for something to happen.
            await asyncio.sleep(STALL / 20)
        assert asyncio.get_running_loop().time() - began > 2 * STALL


@pytest.mark.usefixtures("short")
async def test_a_client_that_does_not_read_gives_its_place_back() -> None:
    async with serving(Sender(30), connections=1) as served:
        await served.open(GET)
        assert await served.status() == 503

        async def has_room() -> bool:
            return await served.status() == 200

        await until(has_room, seconds=SOON)


@pytest.mark.usefixtures("short")
async def test_what_an_idle_client_leaves_unread_does_not_keep_its_connection() -> None:
    """Less than what makes the app wait, and more than the kernel takes."""
    closed = asyncio.Event()

    class Noting(connections.Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            closed.set()

    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(1_000):
            more = number < 999
            await send({"type": "http.response.body", "body": b"x" * 30_000, "more_body": more})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "Connection", Noting)
        async with serving(send_much) as served:
            await served.open(GET, holds=4_096)
            async with asyncio.timeout(SOON):
                await closed.wait()


async def test_one_connection_too_many_gets_503_until_there_is_room(app: Starlette) -> None:
    async with serving(app, connections=3) as served:
        held = [await served.open(b"G") for _ in range(3)]
        assert await served.status("/help") == 503
        assert await served.status("/api/health-checks/minimal") == 200
        held[0][1].close()

        async def served_again() -> bool:
            return await served.status() == 200

        await until(served_again, seconds=SOON)


async def test_a_flood_is_hung_up_on(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SPARE", 1)
    async with serving(app, connections=2) as served:
        held = [await served.open(b"G") for _ in range(3)]
        reader, _ = await served.open()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), SOON)
        held[2][1].close()

        async def answered() -> bool:
            return await served.status("/api/health-checks/minimal") == 200

        await until(answered, seconds=SOON)
        for reader, writer in held[:2]:
            writer.write(GET[1:])
            assert await answer(reader)


def _used() -> int:
    """Bytes of memory that this process has at its disposal."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.long
async def test_a_crowd_of_half_requests(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both ends of each are files of this process.
    crowd = min(1_500, connections_possible(3_200) // 2 - 100)
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 2)
    async with serving(app, connections=2_000) as served:
        await served.status()
        before = _used()
        held = []
        try:
            for number in range(crowd):
                sock = socket.create_connection(("127.0.0.1", served.port))
                held.append(sock)
                # A head without its end, a body without its end.
                sock.sendall(GET[:-2] if number % 2 else POST + b"content-length: 11\r\n\r\nthe")
                if number % 50 == 0:
                    # Somebody who wants to see a page meanwhile.
                    assert await served.status() == 200
            assert _used() - before < crowd * 30_000
            for sock in held:
                sock.setblocking(False)
                loop = asyncio.get_running_loop()
                assert await asyncio.wait_for(loop.sock_recv(sock, 1_000), SOON) == b""
            assert await served.status() == 200
        finally:
            for sock in held:
                sock.close()


@pytest.mark.long
async def test_readers_who_do_not_read_a_big_export_hold_little_and_are_in_nobodys_way(
    driver: Driver, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make.execute(
        "insert into river_job (kind, args) select 'large',"
        " jsonb_build_object('text', repeat('x', 20000)) from generate_series(1, 2000)"
    )
    app = create_app(driver, no_auth=True)
    dropped: list[str] = []
    monkeypatch.setattr(connections, "STALL_SECONDS", 3)

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            if scope["path"] == "/api/jobs/export":
                dropped.append(scope["path"])

    export = GET.replace(b"/help", b"/api/jobs/export")
    async with serving(noting) as served:
        assert await served.status("/jobs") == 200
        before = _used()
        readers = [await served.open(export, holds=4_096) for _ in range(24)]
        for reader, _ in readers:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SOON)
            assert head.startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            assert await served.status("/jobs") == 200
        # Of 40 MB for each of them.
        assert _used() - before < 200_000_000
        assert not dropped
        await until(lambda: len(dropped) == len(readers), seconds=3 * SOON)
        assert await served.status("/jobs") == 200
    await app.state.dashboard.close()


async def test_links_carry_the_path_that_a_proxy_strips(app: Starlette) -> None:
    async with serving(app, root_path="/river") as served:
        reader, _ = await served.open(GET)
        assert b'href="/river/jobs"' in await answer(reader)
