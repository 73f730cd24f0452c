"""The state of one request: who sent it, what htmx says in its headers, and its addresses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import HTTPConnection
from starlette.routing import Route
from starlette.types import Scope

from riverui.errors import BadRequest
from riverui.web.view.preferences import Preferences

VARY = "HX-Request, HX-Target"
"""Caches must know which headers decide between the page and a fragment."""

CONTEXT = "riverui.context"
"""The key of the ASGI scope that holds the RequestContext."""

PATH_SAFE = "/~@:!$&'()*+,;="
"""Characters that stay unquoted when a whole path is quoted."""

_MOUNT = re.compile(r"(/[^/\\\x00-\x20\x7f]+)+")

_LONGEST_ADDRESS = 8_000
"""Longest address that pages repeat, in characters; our own are hardly ever as long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """A user's name (empty if unnamed) and rights."""

    user: str = ""
    rights: frozenset[str] = frozenset()
    sign_out: str = ""
    """Where the sign-out form is posted to; empty if pages show none."""
    token: bool = False
    """Whether the request carries a token, which no browser sends by itself."""

    def may(self, right: str) -> bool:
        """Return whether this user holds the right."""
        return right in self.rights


NOBODY = Viewer()


def reading(rights: Iterable[str]) -> frozenset[str]:
    """Return the rights that change nothing: their names end with `.read`."""
    return frozenset(right for right in rights if right.endswith(".read"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Htmx:
    """The htmx headers of a request; everything is empty for an ordinary browser request."""

    request: bool
    """Whether htmx wants a part of a page (not the whole page that going back in history
    restores).
    """
    target: str
    """Id of the element that the answer replaces."""
    current_path: str
    """Path of the page that the browser shows."""


def htmx(request: HTTPConnection) -> Htmx:
    """Return the values of the HX-* headers."""
    headers = request.headers
    asked = (
        headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"
    )
    # htmx 4 names elements as `tag#id`, the id percent-encoded.
    target = unquote(headers.get("hx-target", "").partition("#")[2])
    try:
        current_path = urlsplit(headers.get("hx-current-url", "")).path
    except ValueError:
        current_path = ""
    return Htmx(request=asked, target=target if asked else "", current_path=current_path)


LIVE_HEADER = "riverui-live"
"""The header in which a live region sends its interval in seconds. A person who opens the page, and
a region that refreshes after an action, do not send it.
"""
_LIVE = LIVE_HEADER.encode()


def asks_by_itself(scope: Scope) -> bool:
    """Return whether the request is a refresh, which `refresh.answer` may answer: a cheap
    check that spares other requests its work.
    """
    return any(name == _LIVE for name, _ in scope["headers"])


class BigintConvertor(Convertor[int]):
    """A whole number that may be a bigint: negative ids are valid and match no job; Postgres has no
    numbers of more than 19 digits.
    """

    regex = "-?[0-9]{1,19}"

    def convert(self, value: str) -> int:
        """Return the number."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Return its digits."""
        return str(int(value))


class RestConvertor(Convertor[str]):
    """The rest of the path, not empty; newlines included, unlike Starlette's own `path`."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        """Return the text as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return it quoted, with its slashes kept."""
        return quote(value, safe="/")


class QueueConvertor(RestConvertor):
    """A queue's name, of any characters."""

    def convert(self, value: str) -> str:
        """Return the name written in a path."""
        return queue_name(value)

    def to_string(self, value: str) -> str:
        """Return the name as one path segment."""
        return queue_path(value)


# Starlette keeps its convertors in one table per process; the prefix avoids replacing one of the
# host app.
register_url_convertor("river_bigint", BigintConvertor())
register_url_convertor("river_queue", QueueConvertor())
register_url_convertor("river_rest", RestConvertor())


def queue_path(name: str) -> str:
    """Return a queue's name as one path segment.

    Some names do not survive browsers, proxies and routers, even quoted: dots alone, slashes,
    control characters. They are quoted twice behind a `~`.
    """
    hard = (
        name in ("", ".", "..")
        or name.startswith("~")
        or any(char in "/\\\x7f" or char < " " for char in name)
    )
    return quote("~" + quote(name, safe="") if hard else name, safe="")


def queue_name(path: str) -> str:
    """Return the name that queue_path wrote, after the server has unquoted it once."""
    return unquote(path[1:]) if path.startswith("~") else path


class Urls:
    """Paths of the routes of one app by name, without the base path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = {route.name: (route.path_format, route.param_convertors) for route in routes}

    def __contains__(self, name: str) -> bool:
        return name in self._routes

    def path(self, name: str, /, **params: Any) -> str:
        """Return the path of the route, with its parameters quoted. Raise KeyError for an
        unknown route.
        """
        path, convertors = self._routes[name]
        if not params:
            return path
        return path.format_map(
            {key: _quoted(convertors[key], value) for key, value in params.items()}
        )


def _quoted(convertor: Convertor[Any], value: Any) -> str:
    if isinstance(convertor, RestConvertor):
        return convertor.to_string(str(value))
    return quote(str(value), safe="")


@dataclass(kw_only=True, slots=True)
class RequestContext:
    """The state of one request, set by the gate."""

    id: str
    """The request's id in logs, in the X-Request-Id header and on error pages."""
    answer_by: float = float("inf")
    """Deadline (of time.monotonic) by which a response has to begin."""
    access: Viewer | None = None
    """None until the gate has decided; stays None on public routes."""
    base: str = ""
    """Base path, quoted, without a trailing slash."""
    by_itself: bool = False
    """Whether this is a refresh of a live region."""
    preferences: Preferences | None = None
    """The preferences in the browser's cookie, once read."""
    route: str = ""
    """Name of the route that answers; empty if none matches."""
    shared: bool = False
    """Whether the response may be shared by all requests for the same view; code that renders
    something specific to one viewer resets it.
    """
    urls: Urls = field(default_factory=lambda: Urls(()))
    """Paths of the app that answers."""


def request_context(request: HTTPConnection) -> RequestContext:
    """Return the context that the gate attached to this request."""
    found: RequestContext = request.scope[CONTEXT]
    return found


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
    return address if len(address) <= _LONGEST_ADDRESS else ""


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
    if (
        not text
        or len(text) > _LONGEST_ADDRESS
        or not text.startswith(base + "/")
        or text.startswith("//")
    ):
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
