"""Addresses for one request: its base path, and links as base path plus a route."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import HTTPConnection

from riverui.errors import BadRequest
from riverui.web.http.request_context import request_context

PATH_SAFE = "/~@:!$&'()*+,;="
"""Characters that stay unquoted when a whole path is quoted."""

_MOUNT = re.compile(r"(/[^/\\\x00-\x20\x7f]+)+")

_LONGEST = 8_000
"""Longest address that pages repeat, in characters; our own are hardly ever as long."""


def base_path(request: HTTPConnection) -> str:
    """Return the base path, quoted, without a trailing slash: "" or e.g. "/river"."""
    return request_context(request).base


def url(request: HTTPConnection, name: str, /, **params: Any) -> str:
    """Return the address of a route of the dashboard that serves this request. Raise KeyError for
    an unknown route.
    """
    return base_path(request) + request_context(request).urls.path(name, **params)


def linked(request: HTTPConnection, name: str, /, **params: Any) -> str:
    """Return the address of a route, or an empty string if no section has it."""
    return url(request, name, **params) if name in request_context(request).urls else ""


def here(request: HTTPConnection) -> str:
    """Return the requested address; empty if it is too long to be repeated in every link
    of a page.
    """
    path = base_path(request) + quote(own_path(request.scope)[1], safe=PATH_SAFE)
    query = request.url.query
    address = f"{path}?{query}" if query else path
    return address if len(address) <= _LONGEST else ""


def only(request: HTTPConnection, *names: str, many: Collection[str] = ()) -> None:
    """Check that an address has no parameters but these, and only those of `many` more than once.

    Raise BadRequest with the reason: an unknown parameter may have been meant to narrow the view.
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
    """Return the base path and our own path of a request, both unquoted, in any of the forms in
    which servers pass them.

    ASGI says that `path` includes `root_path`. Hosts that set `root_path` themselves (FastAPI does)
    leave `path` as the proxy sent it, so only the part of `root_path` that mounts added is in front
    of it. Others (Litestar) cut their mount off `path` without setting `root_path`: then only
    `raw_path` still has it.
    """
    root = str(scope.get("root_path", "")).rstrip("/")
    path = str(scope["path"])
    if not root and scope.get("raw_path") == path.encode(errors="replace"):
        # No prefix, and nothing was quoted.
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
        # Litestar appends a slash to each path.
        path = path.rstrip("/")
    return root, path or "/"


def _mount(asked: str, path: str) -> str:
    """Return the part of the requested address before `path`; empty if there is none, or it is
    unsafe.

    It is the client's input, as far as the host app lets it through, and becomes the beginning of
    every link.
    """
    asked, path = asked.rstrip("/"), path.rstrip("/")
    mount = asked.removesuffix(path) if asked.endswith(path) else ""
    return mount if _MOUNT.fullmatch(mount) and not {".", ".."} & set(mount.split("/")) else ""


def is_api(request: HTTPConnection) -> bool:
    """Return whether the client is a program: everything under /api, /metrics and chart files. It
    gets errors as JSON too.
    """
    path = own_path(request.scope)[1]
    file = path.startswith("/figures/") and path.endswith((".json", ".csv"))
    return path.startswith("/api/") or path == "/metrics" or file


def local_path(request: HTTPConnection, text: str | None, *, default: str) -> str:
    """Return `text` if it is a path (with query) below our base path, else `default`: for
    `next` in forms.
    """
    base = base_path(request)
    if not text or len(text) > _LONGEST or not text.startswith(base + "/") or text.startswith("//"):
        return default
    # Browsers read a backslash as a slash and drop tabs and newlines, so "/\evil" would leave the
    # origin.
    if "\\" in text or any(ord(char) < 0x21 or ord(char) == 0x7F for char in text):
        return default
    # Browsers also read an escaped dot as a dot.
    path = re.split(r"[?#]", text, maxsplit=1)[0].lower().replace("%2e", ".")
    if any(part in (".", "..") for part in path.split("/")):
        return default
    return text
