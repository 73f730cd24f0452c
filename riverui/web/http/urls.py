"""Addresses of one request: the base path that it came by, and links as base path plus a route."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import HTTPConnection

from riverui.errors import BadRequest
from riverui.web.http.request_context import request_context

PATH_SAFE = "/~@:!$&'()*+,;="
"""What stays as it is when a whole path is quoted."""

_MOUNT = re.compile(r"(/[^/\\\x00-\x20\x7f]+)+")

_LONGEST = 8_000
"""Characters of an address that pages repeat; one of our own is hardly ever as long."""


def base_path(request: HTTPConnection) -> str:
    """Return what comes before our own paths, quoted, without a trailing slash: "" or e.g.
    "/river".
    """
    return request_context(request).base


def url(request: HTTPConnection, name: str, /, **params: Any) -> str:
    """Return the address of a route of the dashboard that serves this request; KeyError for an
    unknown route.
    """
    return base_path(request) + request_context(request).urls.path(name, **params)


def linked(request: HTTPConnection, name: str, /, **params: Any) -> str:
    """Return the address of a route, or an empty string if no section has it."""
    return url(request, name, **params) if name in request_context(request).urls else ""


def here(request: HTTPConnection) -> str:
    """Return the address that was asked for; empty where it is too long to be repeated all over a
    page.
    """
    path = base_path(request) + quote(own_path(request.scope)[1], safe=PATH_SAFE)
    query = request.url.query
    address = f"{path}?{query}" if query else path
    return address if len(address) <= _LONGEST else ""


def only(request: HTTPConnection, *names: str, many: Collection[str] = ()) -> None:
    """Check that an address has no other parameters than these, and only those of `many` more than
    once.

    Raises BadRequest in words: what is not understood might have been meant to narrow what is
    shown.
    """
    params = request.query_params
    for name in params:
        shown = name[:40].encode("unicode_escape").decode()
        if name not in names and name not in many:
            known = ", ".join(sorted({*names, *many}))
            raise BadRequest(f"Unknown parameter “{shown}”; the parameters are {known}.")
        if name not in many and len(set(params.getlist(name))) > 1:
            raise BadRequest(f"“{shown}” can be given only once.")


def own_path(scope: Mapping[str, Any]) -> tuple[str, str]:
    """Return the base path and our own path of a request, both unquoted, whichever way the server
    told them.

    ASGI says that `path` includes `root_path`. Hosts that set `root_path` themselves (FastAPI does)
    leave `path` as the proxy sent it, so then only the part of `root_path` that mounts added is in
    front of it. Others (Litestar) cut their mount off `path` and say nothing of it: then `raw_path`
    alone still has it.
    """
    root = str(scope.get("root_path", "")).rstrip("/")
    path = str(scope["path"])
    if not root and scope.get("raw_path") == path.encode(errors="replace"):
        # Nothing stands before it, and nothing in it was quoted.
        return "", path or "/"
    rest = root
    while rest:
        if path == rest or path.startswith(rest + "/"):
            path = path[len(rest) :]
            break
        cut = rest.find("/", 1)
        rest = rest[cut:] if cut > 0 else ""
    asked = unquote((scope.get("raw_path") or b"").partition(b"?")[0])
    mount = _mount(asked, path)
    if mount and not root.endswith(mount):
        root = mount if mount.startswith(f"{root}/") else root + mount
    if mount and not asked.endswith("/"):
        # Litestar puts a slash behind each path.
        path = path.rstrip("/")
    return root, path or "/"


def _mount(asked: str, path: str) -> str:
    """Return what stood before `path` in the address that was asked for; empty for nothing, and for
    what is odd.

    It comes from whoever asks, as far as the host lets it through, and will stand before every
    link.
    """
    asked, path = asked.rstrip("/"), path.rstrip("/")
    mount = asked.removesuffix(path) if asked.endswith(path) else ""
    return mount if _MOUNT.fullmatch(mount) and not {".", ".."} & set(mount.split("/")) else ""


def is_api(request: HTTPConnection) -> bool:
    """Return whether a program asks: everything under /api speaks JSON, errors too, and so do those
    of /metrics and of the files of charts.
    """
    path = own_path(request.scope)[1]
    file = path.startswith("/figures/") and path.endswith((".json", ".csv"))
    return path.startswith("/api/") or path == "/metrics" or file


def local_path(request: HTTPConnection, text: str | None, *, default: str) -> str:
    """Return `text` where it is a path (with query) below our base path, else `default`: for `next`
    in forms.
    """
    base = base_path(request)
    if not text or len(text) > _LONGEST or not text.startswith(base + "/") or text.startswith("//"):
        return default
    # Browsers read a backslash as a slash and drop tabs and newlines, so "/\evil" would leave the
    # origin.
    if "\\" in text or any(ord(char) < 0x21 or ord(char) == 0x7F for char in text):
        return default
    # To browsers an escaped dot is a dot, too.
    path = re.split(r"[?#]", text, maxsplit=1)[0].lower().replace("%2e", ".")
    if any(part in (".", "..") for part in path.split("/")):
        return default
    return text
