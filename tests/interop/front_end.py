"""Serves River UI's built pages as its Go server does, with riverui behind `/api`.

What the pages ask is written down.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import re
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from starlette.responses import FileResponse, HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.river_ui_stage import difference, outline, picture

_KEPT = ("accept", "content-type", "origin", "sec-fetch-site")
"""Headers of a request that may matter to the answer; hosts are made up anew when it is sent again.
"""


class BuiltPages:
    """The folder of built pages: River UI's sources with `dist/` in them, or that folder itself."""

    def __init__(self, source: Path) -> None:
        self.folder = source / "dist" if (source / "dist" / "index.html").is_file() else source
        index = (self.folder / "index.html").read_text(encoding="utf-8")
        manifest = json.loads((self.folder / ".vite" / "manifest.json").read_text(encoding="utf-8"))
        entry = manifest["src/main.tsx"]
        # The page is a template of Go's: an alternative for developers, and a few values.
        index = re.sub(r"\{\{-? if \.Dev ?-?\}\}.*?\{\{-? else ?-?\}\}", "", index, flags=re.DOTALL)
        for pattern, value in (
            (r"\{\{ marshal \.Config \}\}", json.dumps({"apiUrl": "/api", "base": ""})),
            (r"\{\{ \.Base \}\}", ""),
            (r"\{\{ index \$css 0 ?\}\}", entry["css"][0]),
            (r"\{\{ \$js \}\}", entry["file"]),
            (r"\{\{.*?\}\}", ""),
        ):
            index = re.sub(pattern, value.replace("\\", r"\\"), index)
        self.index = index

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the file of that name, or else with the page that finds its own way."""
        path = self.folder / str(scope["path"]).lstrip("/")
        if (
            path.is_file()
            and path.resolve().is_relative_to(self.folder.resolve())
            and path.suffix != ".html"
        ):
            answer: ASGIApp = FileResponse(path, media_type=mimetypes.guess_type(path.name)[0])
        else:
            answer = HTMLResponse(self.index)
        await answer(scope, receive, send)


class Recorder:
    """The pages, and riverui behind `/api`: one request after the other, each written down."""

    def __init__(self, pages: ASGIApp, api: ASGIApp, connection: AsyncConnection[Any]) -> None:
        self._pages = pages
        self._api = api
        self._connection = connection
        self._turn = asyncio.Lock()
        self.requests: list[dict[str, Any]] = []
        """Each request that is unlike those since the last change, with its answer's status and
        outline.
        """
        self._since_change: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not scope["path"].startswith("/api/"):
            await self._pages(scope, receive, send)
            return
        async with self._turn:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        sent, told, status = bytearray(), bytearray(), 0

        async def receive_and_keep() -> Message:
            message = await receive()
            sent.extend(message.get("body", b""))
            return message

        async def send_and_keep(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            told.extend(message.get("body", b""))
            await send(message)

        changes = scope["method"] not in ("GET", "HEAD")
        before = await picture(self._connection) if changes else {}
        await self._api(scope, receive_and_keep, send_and_keep)
        found: dict[str, Any] = {
            "method": scope["method"],
            "path": path,
            "headers": {name: headers[name] for name in _KEPT if name in headers},
            "body": sent.decode(),
            "status": status,
            "answer": outline(json.loads(told)),
        }
        if "origin" in found["headers"]:
            own = found["headers"]["origin"] == f"http://{headers['host']}"
            found["headers"]["origin"] = "own" if own else found["headers"]["origin"]
        if changes:
            found["changes"] = difference(before, await picture(self._connection))
            self._since_change.clear()
        key = f"{found['method']} {path} {status}"
        if changes or key not in self._since_change:
            self._since_change.add(key)
            self.requests.append(found)
