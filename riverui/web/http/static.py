"""Static files out of memory: hashed addresses are cached for a year, text goes out compressed."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from riverui.web.assets import static_hash
from riverui.web.http.urls import url

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


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    body: bytes
    hash: str
    media_type: str
    zipped: bytes | None


class StaticFiles:
    """Every servable file below a folder, read once: no path from outside ever reaches the file
    system.
    """

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _read(path, path.relative_to(folder).as_posix())
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES and path.is_file()
        }

    def url(self, request: Request, path: str) -> str:
        """The address of a file with its content's hash in it; KeyError where there is no such
        file.
        """
        return url(request, "static", hash=self._files[path].hash, path=path)

    async def show(self, request: Request) -> Response:
        """The file. An old hash gets today's file, uncached: its page was drawn before an
        upgrade.
        """
        file = self._files.get(request.path_params["path"])
        if file is None:
            # No page: this route is public, and a page tells more than strangers need to know.
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
        if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(file.zipped, headers=headers, media_type=file.media_type)
        return Response(file.body, headers=headers, media_type=file.media_type)


def _read(path: Path, name: str) -> _File:
    body = path.read_bytes()
    zipped = gzip.compress(body, 9, mtime=0) if path.suffix in _COMPRESSED else None
    return _File(
        body=body, hash=static_hash(name), media_type=MEDIA_TYPES[path.suffix], zipped=zipped
    )
