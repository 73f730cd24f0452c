"""Limits of each connection of our own server, whatever its other end does: it may send half a
request, read nothing of the answer, or be one too many.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import uvicorn
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from riverui.web.http.gate import HEADERS

log = logging.getLogger("riverui.http")

_CHECKS = 8
"""How often within the shortest time limit a connection is looked at."""
_TELL = 10.0
"""Seconds between two lines of the log that tell of too many connections."""
_TOO_MANY = "Too many connections are open. Try again in a few seconds."
_TIMED_OUT = b"The request did not arrive in time.\n"
_REQUEST_TIMEOUT = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain;"
    b" charset=utf-8\r\ncontent-length: %d\r\n\r\n%s" % (len(_TIMED_OUT), _TIMED_OUT)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """What one server allows its connections."""

    connections: int = 900
    """Open connections that are served, some 10 kB each while they are idle. A further one takes
    the place of one that is idle, and is told 503 where none is. Below the 1,024 files that a
    process may have open by default.
    """
    spare: int = 60
    """Connections beyond that which are open at once to be told so; any more are hung up on."""
    request: timedelta = timedelta(seconds=10)
    """How long a request may take to arrive, from its first byte (or the connection's beginning) to
    its last: none of ours is larger than 1 MiB.
    """
    stall: timedelta = timedelta(seconds=20)
    """How long a reader may leave what waits for it untouched: at the slowest it reads some 5 kB a
    second.
    """
    buffer: int = 64 * 1024
    """Bytes of an answer that may wait in a connection before the rest of it is held back; four
    times as many in the kernel, which by itself would take several MB.
    """


def server_config(
    app: ASGIApp, limits: ConnectionLimits | None = None, **options: Any
) -> uvicorn.Config:
    """Return uvicorn's settings for a server of our own, whose connections are under limits."""
    return uvicorn.Config(
        app,
        access_log=False,
        http=_protocol(limits or ConnectionLimits()),
        log_config=None,
        proxy_headers=False,
        server_header=False,
        ws="none",
        **options,
    )


def _protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return the class of one server's connections."""
    together = Together()
    make: Any = AutoHTTPProtocol

    class Limited(Connection):
        def __init__(self, **given: Any) -> None:
            super().__init__(make(**given), limits, together)

    return Limited


class Together:
    """The open connections of one server: those in front were used last the longest ago."""

    def __init__(self) -> None:
        self._connections: OrderedDict[Connection, None] = OrderedDict()
        self._told = -1e9

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: Connection) -> None:
        """Put a connection behind all others, as it was just used."""
        self._connections[connection] = None
        self._connections.move_to_end(connection)

    def discard(self, connection: Connection) -> None:
        """Take a connection out, if it is there."""
        self._connections.pop(connection, None)

    def make_room(self) -> bool:
        """End the connection that has been idle for longest; return whether there was one."""
        for connection in self._connections:
            if connection.idle:
                connection.end()
                return True
        return False

    def tell(self) -> None:
        """Log, once in ten seconds, that there are too many."""
        now = asyncio.get_running_loop().time()
        if now - self._told > _TELL:
            self._told = now
            log.warning("too many connections", extra={"open": len(self)})


class OneWrite:
    """A transport whose writes may be held, so that the head of an answer goes out with what
    follows at once: each write would else wake the reader.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._holding = False

    def __getattr__(self, name: str) -> Any:
        # All else is the transport's own.
        return getattr(self._transport, name)

    def hold(self) -> None:
        """Keep what is written up to the next `release`, or for one turn of the loop."""
        self._holding = True
        self._loop.call_soon(self.release)

    def write(self, data: bytes) -> None:
        """Send the data behind what was held, or hold it too."""
        if self._holding:
            self._held.append(data)
        else:
            self._transport.write(data)

    def release(self) -> None:
        """Send what was held."""
        self._holding = False
        if self._held:
            data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
            self._held.clear()
            self._transport.write(data)

    def close(self) -> None:
        """Send what was held, and close the connection."""
        self.release()
        self._transport.close()


class Connection(asyncio.Protocol):
    """uvicorn's protocol of one connection, with an eye on the clock and on what waits to be
    read.
    """

    def __init__(self, protocol: Any, limits: ConnectionLimits, together: Together) -> None:
        self._protocol = protocol
        self._app: ASGIApp = protocol.app
        # uvicorn calls the app through its protocol, so each connection sees its own requests.
        protocol.app = self._serve
        self._limits = limits
        self._together = together
        self._loop = asyncio.get_running_loop()
        self._check_every = min(limits.request, limits.stall).total_seconds() / _CHECKS
        self._excess = False
        """Whether it is one too many."""
        self._since: float | None = None
        """Since when (the loop's clock) a request is awaited or arriving; None while none is."""
        self._begun = False
        """Whether some of it has arrived."""
        self._handed = False
        """Whether its head has arrived whole and the app has it."""
        self._answering = 0
        self._following = False
        """Whether a part of a further request came before one was answered."""
        self._tail = b""
        """The last bytes that came: a head ends with an empty line."""
        self._waiting = 0
        """Bytes that waited to be read at the last check."""
        self._moved = 0.0
        """When (the loop's clock) some of them were seen to be read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to watch the connection; hang up where even those that are told 503 are too
        many.
        """
        # uvloop's transports are no asyncio.Transport, but have all of it.
        self._transport = cast(asyncio.Transport, transport)
        beyond = len(self._together) + 1 - self._limits.connections
        if beyond > 0 and not self._together.make_room():
            self._excess = True
            self._together.tell()
        self._together.add(self)
        self._since = self._moved = self._loop.time()
        self._transport.set_write_buffer_limits(high=self._limits.buffer)
        # The kernel doubles the number. What it holds moves on by thirds, so this is how far a slow
        # reader has to come to be seen to read.
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * self._limits.buffer
        )
        self._answers = OneWrite(self._transport, self._loop)
        self._protocol.connection_made(self._answers)
        self._checking = self._loop.call_later(self._check_every, self._check)
        if self._excess and beyond > self._limits.spare:
            self._transport.abort()

    @property
    def idle(self) -> bool:
        """Return whether nothing has been sent on it that is still to be answered, and every answer
        is read.
        """
        quiet = self._since is None or not self._begun
        return quiet and not self._answering and not self._transport.get_write_buffer_size()

    def end(self) -> None:
        """Close the connection after what waits has been sent."""
        self._together.discard(self)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the watch."""
        self._checking.cancel()
        self._together.discard(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note that a request arrives."""
        if self._since is not None:
            self._begun = True
        elif self._answering:
            self._following = True
        else:
            self._since, self._begun, self._handed = self._loop.time(), True, False
        self._tail = (self._tail + data[-4:])[-4:]
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Answer as uvicorn does."""
        ends: bool | None = self._protocol.eof_received()
        return ends

    def pause_writing(self) -> None:
        """Have the app wait, as uvicorn does."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Note that the reader reads."""
        self._moved = self._loop.time()
        self._protocol.resume_writing()

    def _check(self) -> None:
        """End a connection that takes too long over its request, or reads nothing of what waits
        for it.
        """
        now = self._loop.time()
        self._checking = self._loop.call_later(self._check_every, self._check)
        waiting = self._transport.get_write_buffer_size()
        if waiting < self._waiting or not self._waiting:
            self._moved = now
        self._waiting = waiting
        if waiting and now - self._moved > self._limits.stall.total_seconds():
            log.info("a reader who does not read was dropped", extra={"waiting_bytes": waiting})
            self._transport.abort()
        elif self._since is not None and now - self._since > self._limits.request.total_seconds():
            self._since = None
            # Nothing unasked for: the other end would take it for the answer to what it sends next.
            if self._begun and not self._handed:
                self._transport.write(_REQUEST_TIMEOUT)
            self._transport.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app, or tell that there are too many connections."""
        self._handed = True
        if not _has_body(scope):
            self._since = None
            self._following = self._tail != b"\r\n\r\n"

        async def receive_and_note() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                self._since = None
            return message

        async def send_in_pieces(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] == "http.response.start":
                self._answers.hold()
            if len(body) <= self._limits.buffer:
                await send(message)
                if message["type"] == "http.response.body":
                    self._answers.release()
                return
            self._answers.release()
            for start in range(0, len(body), self._limits.buffer):
                end = start + self._limits.buffer
                more = end < len(body) or message.get("more_body", False)
                await send({**message, "body": body[start:end], "more_body": more})

        app = _told_too_many(scope) if self._excess and not _asks_for_health(scope) else self._app
        self._answering += 1
        try:
            await app(scope, receive_and_note, send_in_pieces)
        finally:
            self._answering -= 1
            if not self._transport.is_closing():
                self._together.add(self)
            if self._following:
                self._following, self._begun, self._handed = False, False, False
                self._since = self._loop.time()


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 "))
        for name, value in scope["headers"]
    )


def _asks_for_health(scope: Scope) -> bool:
    """Return whether to answer in any case: a restart for not answering would make it worse."""
    path: str = scope["path"]
    return "/api/health-checks/" in path or path == "/health"


def _told_too_many(scope: Scope) -> Response:
    headers = {**HEADERS, "Connection": "close", "Retry-After": "5"}
    if "/api/" in scope["path"]:
        return JSONResponse({"message": _TOO_MANY}, 503, headers)
    return PlainTextResponse(f"{_TOO_MANY}\n", 503, headers)
