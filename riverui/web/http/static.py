"""Static files from memory: hashed addresses are cached for a year, text is sent compressed."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from riverui.web import assets
from riverui.web.http.bundles import ENTRIES, bundle
from riverui.web.http.context import Service, dashboard
from riverui.web.http.request_context import url

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""By suffix; files of other kinds (licences, notes) are not served."""

_COMPRESSED = frozenset({".css", ".js", ".svg", ".webmanifest"})


@dataclass(frozen=True, kw_only=True)
class _File:
    body: bytes
    hash: str
    suffix: str

    @cached_property
    def zipped(self) -> bytes | None:
        """Compressed on first use; None if compression does not make it smaller."""
        return gzip.compress(self.body, 9, mtime=0) if self.suffix in _COMPRESSED else None


class StaticFiles:
    """Every servable file below a folder, read once: no path of a request ever reaches
    the file system.
    """

    def __init__(self, folder: Path) -> None:
        bodies = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES and path.is_file()
        }
        bundles = {
            name: bundle(bodies, entry) for name, entry in ENTRIES.items() if entry in bodies
        }
        self._files = {name: _file(name, body) for name, body in (bodies | bundles).items()}

    def url(self, request: Request, path: str) -> str:
        """Return the address of a file, with the hash of its content in it.

        Raise KeyError if the file does not exist.
        """
        return url(request, "static", hash=self._files[path].hash, path=path)

    async def show(self, request: Request) -> Response:
        """Answer with the file.

        An old hash gets the current file, uncached: its page was rendered before an upgrade.
        """
        file = self._files.get(request.path_params["path"])
        if file is None:
            # Not an error page: this route is public, and a page would show strangers more than
            # they need.
            return PlainTextResponse("File not found.", status_code=404)
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable"
            if request.path_params["hash"] == file.hash
            else "no-cache",
            "ETag": f'W/"{file.hash}"',
            "Vary": "Accept-Encoding",
        }
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body, media_type = file.body, MEDIA_TYPES[file.suffix]
        if "gzip" in request.headers.get("accept-encoding", "") and file.zipped is not None:
            headers["Content-Encoding"] = "gzip"
            body = file.zipped
        return Response(body, headers=headers, media_type=media_type)


STATIC = Service(make=lambda board: StaticFiles(assets.STATIC))
"""The static files of this installation."""


async def show(request: Request) -> Response:
    """Answer with a static file."""
    return await dashboard(request).get(STATIC).show(request)


def content_hash(body: bytes) -> str:
    """Return the first 12 hex digits of the SHA-256 of a file's content."""
    return hashlib.sha256(body).hexdigest()[:12]


def _file(name: str, body: bytes) -> _File:
    return _File(body=body, hash=content_hash(body), suffix=PurePosixPath(name).suffix)
