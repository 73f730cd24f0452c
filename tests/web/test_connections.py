"""Connections of our own server, whose other ends misbehave: real sockets against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import uvicorn
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from riverui import create_app
from riverui.cli.open_files import connections_possible
from riverui.cli.server import listen
from riverui.storage.interface import Driver
from riverui.web.http.connections import ConnectionLimits, OneWrite, server_config
from tests.test_together import until
from tests.web.stand_ins import DeadDriver

SOON = 10.0
"""Seconds within which what must happen does, on the busiest machine; the limits are far below."""
SHORT = ConnectionLimits(request=timedelta(seconds=0.3), stall=timedelta(seconds=0.5))
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
        """Return what a new connection is answered."""
        reader, writer = await self.open(GET.replace(b"/help", path.encode()))
        try:
            return int((await asyncio.wait_for(reader.readline(), SOON)).split()[1])
        finally:
            writer.close()

    def close(self) -> None:
        for writer in self._opened:
            writer.close()


@asynccontextmanager
async def serving(app: ASGIApp, limits: ConnectionLimits) -> AsyncIterator[Served]:
    with listen("127.0.0.1", 0) as sock:
        config = server_config(
            app, limits, lifespan="off", timeout_graceful_shutdown=1, timeout_keep_alive=60
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


PARSERS = {"httptools": "HttpToolsProtocol", "h11": "H11Protocol"}
INSTALLED = [name for name in PARSERS if find_spec(name)]


@pytest.fixture(params=INSTALLED, autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each of the two that uvicorn knows, where it is installed, whichever it would take."""
    module = import_module(f"uvicorn.protocols.http.{request.param}_impl")
    protocol = getattr(module, PARSERS[request.param])
    monkeypatch.setattr("riverui.web.http.connections.AutoHTTPProtocol", protocol)


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


async def test_half_a_head_is_told_and_hung_up_on(app: Starlette) -> None:
    heads = (GET[:-2], GET[:-1], GET[:5], b"G", GET[:-2] + b"x-pad: " + b"y" * 5000)
    async with serving(app, SHORT) as served:
        answers = await asyncio.gather(*map(served.rest, heads))
    for sent, found in zip(heads, answers, strict=True):
        assert found.startswith(b"HTTP/1.1 408 "), sent
        assert b"did not arrive in time" in found, sent


async def test_nothing_and_half_a_body_are_hung_up_on(app: Starlette) -> None:
    sent = {
        "nothing": b"",
        "half a body": POST + b"content-length: 11\r\n\r\ntheme=",
        "half a chunk": POST + b"transfer-encoding: chunked\r\n\r\n5\r\nthe",
    }
    async with serving(app, SHORT) as served:
        answers = await asyncio.gather(*map(served.rest, sent.values()))
    assert dict(zip(sent, answers, strict=True)) == dict.fromkeys(sent, b"")


async def test_a_request_that_trickles_in_is_hung_up_on(app: Starlette) -> None:
    async with serving(app, SHORT) as served:
        reader, writer = await served.open()

        async def trickle() -> None:
            while not reader.at_eof():
                writer.write(b"x")
                await asyncio.sleep(SHORT.request.total_seconds() / 10)

        trickling = asyncio.create_task(trickle())
        try:
            # What was sent after the end is answered with a reset.
            with suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), SOON)
        finally:
            trickling.cancel()


async def test_half_a_request_after_a_whole_one_is_hung_up_on(app: Starlette) -> None:
    async with serving(app, SHORT) as served:
        reader, writer = await served.open(GET)
        assert await answer(reader)
        writer.write(GET[:-2])
        assert (await asyncio.wait_for(reader.read(), SOON)).startswith(b"HTTP/1.1 408 ")
        # Both at once.
        found = await served.rest(GET + GET[:-2])
        assert found.count(b"HTTP/1.1 200 ") == 1


async def test_an_idle_connection_stays_and_is_told_nothing_unasked(app: Starlette) -> None:
    body = b"theme=light"
    posted = POST + b"content-length: %d\r\n\r\n%s" % (len(body), body)
    async with serving(app, SHORT) as served:
        reader, writer = await served.open()
        for sent in (GET, posted, GET):
            writer.write(sent)
            if sent is GET:
                assert await answer(reader)
            else:
                assert b" 303 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SOON)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 1.5 * SHORT.request.total_seconds())
        # A body that nobody wanted to read: the connection may end, but not with words.
        foreign = POST + b"origin: https://elsewhere.test\r\ncontent-length: 11\r\n\r\ntheme="
        writer.write(foreign)
        assert b"another origin" in await answer(reader)
        assert await asyncio.wait_for(reader.read(), SOON) == b""


async def test_a_large_body_arrives_whole_and_so_does_a_large_answer() -> None:
    async def echo(request: Request) -> Response:
        return PlainTextResponse(await request.body())

    body = bytes(range(256)) * 40_000
    async with serving(
        Starlette(routes=[Route("/", echo, methods=["POST"])]), ConnectionLimits()
    ) as served:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        reader, writer = await served.open()

        async def send() -> None:
            writer.write(head + body)
            await writer.drain()

        sending = asyncio.create_task(send())
        assert await answer(reader) == body
        await sending


class Sender:
    """Sends one large body to each who asks, and notes who left."""

    def __init__(self, megabytes: int) -> None:
        self.body = b"x" * (megabytes * 1_000_000)
        self.left = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = str(len(self.body)).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": self.body})
        await receive()
        message = await receive()
        assert message["type"] == "http.disconnect"
        self.left += 1


@pytest.mark.long
async def test_readers_who_do_not_read_hold_little_and_are_dropped() -> None:
    sender = Sender(30)
    async with serving(sender, SHORT) as served:
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
async def test_a_reader_who_keeps_reading_is_not_dropped() -> None:
    sender = Sender(5)
    async with serving(sender, SHORT) as served:
        reader, _ = await served.open(GET, holds=20_000)
        await reader.readuntil(b"\r\n\r\n")
        received, began = 0, asyncio.get_running_loop().time()
        while received < len(sender.body):
            received += len(await asyncio.wait_for(reader.readexactly(100_000), SOON))
            assert received > len(sender.body) - 1_000_000 or not sender.left, "it was sent at once"
            # The pace of the reader, not a wait for something to happen.
            await asyncio.sleep(SHORT.stall.total_seconds() / 20)
        assert asyncio.get_running_loop().time() - began > 2 * SHORT.stall.total_seconds()


async def test_a_reader_who_does_not_read_gives_its_place_back() -> None:
    limits = ConnectionLimits(connections=1, request=SHORT.request, stall=SHORT.stall)
    async with serving(Sender(30), limits) as served:
        await served.open(GET)
        assert await served.status() == 503

        async def has_room() -> bool:
            return await served.status() == 200

        await until(has_room, seconds=SOON)


async def test_one_connection_too_many_is_told_so_and_served_once_there_is_room(
    app: Starlette, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ConnectionLimits(connections=3, spare=2)
    caplog.set_level(logging.WARNING, logger="riverui.http")
    async with serving(app, limits) as served:
        held = [await served.open(b"G") for _ in range(3)]
        for path in ("/help", "/api/openapi.json"):
            reader, _ = await served.open(GET.replace(b"/help", path.encode()))
            found = await asyncio.wait_for(reader.read(), SOON)
            head, _, body = found.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            lines = head.lower().split(b"\r\n")
            assert b"retry-after: 5" in lines
            assert b"connection: close" in lines
            assert any(line.startswith(b"content-security-policy:") for line in lines)
            told = json.loads(body)["message"] if path.startswith("/api/") else body.decode()
            assert "Too many connections are open. Try again in a few seconds." in told
        assert caplog.messages == ["too many connections"], "once for all of them"
        assert await served.status("/api/health-checks/minimal") == 200
        held[0][1].close()

        async def served_again() -> bool:
            return await served.status() == 200

        await until(served_again, seconds=SOON)


@pytest.mark.long
async def test_a_flood_of_connections_is_hung_up_on(app: Starlette) -> None:
    async with serving(app, ConnectionLimits(connections=2, spare=1)) as served:
        held = [await served.open(b"G") for _ in range(3)]
        reader, _ = await served.open()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), SOON)
        for reader, writer in held[:2]:
            writer.write(GET[1:])
            assert await answer(reader)


async def test_idle_connections_make_room_the_longest_idle_first(app: Starlette) -> None:
    async with serving(app, ConnectionLimits(connections=3, spare=0)) as served:
        half = await served.open(b"G")
        idle = []
        for _ in range(2):
            reader, writer = await served.open(GET)
            assert await answer(reader)
            idle.append((reader, writer))
        assert await served.status() == 200
        assert await asyncio.wait_for(idle[0][0].read(), SOON) == b""
        for (reader, writer), sent in ((idle[1], GET), (half, GET[1:])):
            writer.write(sent)
            assert await answer(reader)


def _used() -> int:
    """Bytes of memory that this process has at its disposal."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.long
async def test_a_crowd_that_sends_half_a_request_holds_little_and_is_hung_up_on(
    app: Starlette,
) -> None:
    # Both ends of each are files of this process.
    crowd = min(1_500, connections_possible(3_200) // 2 - 100)
    limits = ConnectionLimits(connections=2_000, request=timedelta(seconds=2))
    async with serving(app, limits) as served:
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
            for number, sock in enumerate(held):
                sock.setblocking(False)
                found = b""
                while piece := await asyncio.wait_for(
                    asyncio.get_running_loop().sock_recv(sock, 1_000), SOON
                ):
                    found += piece
                assert found.startswith(b"HTTP/1.1 408 ") == bool(number % 2)
            assert await served.status() == 200
        finally:
            for sock in held:
                sock.close()


@pytest.mark.long
@pytest.mark.parametrize("parser", INSTALLED[:1], indirect=True)
async def test_readers_who_do_not_read_a_big_export_hold_little_and_are_in_nobodys_way(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await connection.execute(
        "insert into river_job (kind, args) select 'large',"
        " jsonb_build_object('text', repeat('x', 20000)) from generate_series(1, 2000)"
    )
    app = create_app(driver, no_auth=True)
    dropped: list[str] = []
    limits = ConnectionLimits(stall=timedelta(seconds=3))

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            if scope["path"] == "/api/jobs/export":
                dropped.append(scope["path"])

    export = GET.replace(b"/help", b"/api/jobs/export")
    async with serving(noting, limits) as served:
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


class Written(asyncio.Transport):
    """Keeps what was written, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True


async def test_a_head_goes_out_with_what_follows_at_once() -> None:
    written = Written()
    answers = OneWrite(written, asyncio.get_running_loop())
    answers.hold()
    answers.write(b"head ")
    answers.write(b"body")
    assert written.writes == []
    answers.release()
    answers.write(b" more")
    assert written.writes == [b"head body", b" more"]
    answers.hold()
    answers.write(b"head of a stream")
    await asyncio.sleep(0)
    assert written.writes[2:] == [b"head of a stream"]
    answers.hold()
    answers.write(b"last")
    answers.close()
    assert (written.writes[3:], written.closed) == ([b"last"], True)


async def test_an_answer_is_one_write(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    release = OneWrite.release

    def noted(self: OneWrite) -> None:
        seen.append(b"".join(self._held))
        release(self)

    monkeypatch.setattr(OneWrite, "release", noted)
    async with serving(app, SHORT) as served:
        assert await served.status("/api/health-checks/minimal") == 200
    whole = [data for data in seen if data]
    assert len(whole) == 1
    assert whole[0].startswith(b"HTTP/1.1 200")
    assert whole[0].endswith(b'{"status":"ok"}')
