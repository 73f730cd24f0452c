"""Path parameters of our own routes: which values they match, and how a value is written
into one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route


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
