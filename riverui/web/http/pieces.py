"""Stream a text of any length in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from riverui.errors import NotFound
from riverui.storage.interface import Executor
from riverui.storage.interface.params import TextPiece
from riverui.web.http.context import dashboard

PIECE_BYTES = 4_000_000
"""Bytes of a text in memory at once.

Not less, because for each piece the database reads the whole text anew.
"""

ReadPiece = Callable[[Executor, int], Awaitable[TextPiece | None]]
"""Reads the part of a text that begins at a byte; None if the text does not exist."""


async def whole_text(request: Request, missing: str, read: ReadPiece) -> Response:
    """Stream a text, each piece in its own transaction. Raise NotFound with this message if it does
    not exist.

    A slow client thus holds neither memory nor a connection. If the row changes meanwhile, the
    answer ends before its announced length.
    """
    board = dashboard(request)

    async def piece(start: int) -> TextPiece | None:
        async with board.driver.reading(timeout=board.config.action_timeout) as executor:
            return await read(executor, start)

    first = await piece(0)
    if first is None:
        raise NotFound(missing)

    async def pieces() -> AsyncIterator[bytes]:
        yield first.data
        sent = len(first.data)
        while sent < first.size:
            found = await piece(sent)
            if found is None or found.version != first.version or not found.data:
                raise RuntimeError("the row changed while its text was being sent")
            yield found.data
            sent += len(found.data)

    headers = {"Content-Length": str(first.size)}
    return StreamingResponse(pieces(), media_type="text/plain; charset=utf-8", headers=headers)
