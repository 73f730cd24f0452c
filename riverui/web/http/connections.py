"""What `riverui serve` adds to uvicorn for a server without a proxy in front of it.

uvicorn limits the number of connections (`limit_concurrency`) and their idle time between requests
(`timeout_keep_alive`), but waits without limit for an unfinished request and for a client that does
not read its answer: a few hundred of those would use up all connections.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, from the start of the connection or its own first byte to
its last: no request is larger than 1 MiB.
"""
STALL_SECONDS = 20.0
"""How long a client may leave data unread in this process, beyond the kernel's own buffer."""
_CONNECTIONS = 900
"""Connections served by default: below the 1,024 files that a process may usually open."""
_SENT_BYTES = 128 * 1024
"""Bytes of an answer in the kernel's send buffer, by default several MB. Data moves on by thirds of
it, so this is how much a client has to read within STALL_SECONDS: some 5 kB a second.
"""
_SPARE = 60
"""Connections beyond the limit, answered with 503, that may be open at once; further ones are
closed without an answer, before the process runs out of files.
"""


def server_config(
    app: ASGIApp, *, connections: int = _CONNECTIONS, **options: Any
) -> uvicorn.Config:
    """Return uvicorn's settings for our own server; connections beyond the limit get a 503."""
    return uvicorn.Config(
        app,
        access_log=False,
        http=Connection,
        # uvicorn rejects the connection that reaches the limit.
        limit_concurrency=connections + 1,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        ws="none",
        **options,
    )


class Connection(HttpToolsProtocol):
    """A connection that is closed if its client neither finishes a request nor reads an answer."""

    _request_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, or close the connection if far too many are open."""
        super().connection_made(transport)
        assert self.limit_concurrency is not None
        if len(self.connections) >= self.limit_concurrency + _SPARE:
            transport.abort()
        sock: socket.socket = transport.get_extra_info("socket")
        # The kernel doubles the number.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_BYTES)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        _cancel(self._request_timer)
        _cancel(self._stall_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request; a stray line break counts as the beginning of one."""
        self._await_request()
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Wait for the rest of a request that was pipelined."""
        self._await_request()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Answer health checks even beyond the limit: a restart would make the overload worse."""
        path = self.url.partition(b"?")[0]
        exempt = b"/api/health-checks/" in path or path == b"/health"
        self.limit_concurrency = None if exempt else self.config.limit_concurrency
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request has arrived."""
        _cancel(self._request_timer)
        self._request_timer = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start to watch whether the client reads."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        _cancel(self._stall_timer)
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        self._close()

    def _await_request(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_SECONDS, self._end_request)

    def _end_request(self) -> None:
        self._request_timer = None
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete and not cycle.more_body
        if answering or self.flow.read_paused:
            # The app itself is slow.
            self._await_request()
        else:
            self._close()

    def _await_reader(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(STALL_SECONDS, self._end_stall, size)

    def _end_stall(self, size: int) -> None:
        if self.transport.get_write_buffer_size() < size:
            self._await_reader()
        else:
            self.transport.abort()

    def _close(self) -> None:
        """Close the connection once the pending data is sent, within a time limit."""
        self.transport.close()
        _cancel(self._stall_timer)
        self._stall_timer = self.loop.call_later(STALL_SECONDS, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
