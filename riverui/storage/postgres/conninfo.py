"""Convert database URLs in the forms of Go, Python and libpq to libpq's parameters."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from datetime import timedelta
from functools import partial
from inspect import iscoroutine
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from riverui.errors import ConfigError, DatabaseUnavailable
from riverui.storage.options import Password

Connection = AsyncConnection[Any]

_PGX_PARAMETERS = frozenset(
    {"default_query_exec_mode", "description_cache_capacity", "statement_cache_capacity"}
)
"""Parameters of pgx's caches; those of its pool are known by their prefix `pool_`."""
_SQLALCHEMY_PARAMETERS = frozenset(
    {"prepared_statement_cache_size", "prepared_statement_name_func"}
)
_MAX_SIZE = 64
"""Most connections, whatever `pool_max_conns` says: no process of riverui needs more."""
_LEAST_CONNECT_SECONDS = 2
"""libpq raises a lower number of seconds to two."""


class Address:
    """Address and credentials of a database, read for each new connection."""

    def __init__(self, text: str, password: Password | None = None) -> None:
        self._text = text
        self._password = password

    @property
    def changes(self) -> bool:
        """Whether it may differ for the next connection."""
        return self._password is not None

    async def resolve(self) -> str:
        """Return libpq's connection string for a new connection; DatabaseUnavailable without a
        password.
        """
        if self._password is None:
            return self._text
        password = _asked(self._password)
        return self._with(await password if isinstance(password, Awaitable) else password)

    def resolve_sync(self) -> str:
        """Return the same without asyncio; ConfigError for a password that has to be
        awaited.
        """
        if self._password is None:
            return self._text
        password = _asked(self._password)
        if isinstance(password, Awaitable):
            if iscoroutine(password):
                password.close()
            raise ConfigError("A client without asyncio needs a password that is not awaited.")
        return self._with(password)

    def _with(self, password: str) -> str:
        return make_conninfo(self._text, password=password)


def _asked(password: Password) -> str | Awaitable[str]:
    try:
        return password()
    except OSError as error:
        raise DatabaseUnavailable(
            f"The database's password cannot be read: {error.strerror} ({error.filename}).",
            public="The database's password cannot be read.",
        ) from error


def conninfo(
    url: str | None,
    connect_timeout: timedelta,
    *,
    name: str = "riverui",
    password: Password | None = None,
) -> tuple[Address, int | None]:
    """Return the address with riverui's own defaults, and pgx's `pool_max_conns` if the URL has it.

    The server shows `name` for the connections. The password comes from `password`, called for each
    new connection, from the URL's `password_file`, or from the URL. ConfigError for a URL that
    cannot be parsed.
    """
    parameters, size = parse_url(url or "")
    file = parameters.pop("password_file", "")
    if file and password is None:
        password = partial(_first_line, file)
    seconds = max(_LEAST_CONNECT_SECONDS, round(connect_timeout.total_seconds()))
    text = make_conninfo(
        **{
            "fallback_application_name": name,
            "client_encoding": "UTF8",
            "connect_timeout": str(seconds),
            **parameters,
        }
    )
    return Address(text, password), size


def _first_line(file: str) -> str:
    # Editors and `echo` end a file with a newline that is not part of the secret.
    return Path(file).read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")


def parse_url(url: str) -> tuple[dict[str, str], int | None]:
    """Return a URL or `key=value` line as libpq's parameters and riverui's `password_file`, and
    pgx's `pool_max_conns` if present; ConfigError if it cannot be parsed.
    """
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    extra: dict[str, str] = {}
    url, is_asyncpg = _without_driver(url)
    if re.match(r"postgres(ql)?://", url):
        rest, _, query = url.partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError:
            raise ConfigError(
                "The database URL is not valid: check the part after the question mark."
            ) from None
        if is_asyncpg:
            pairs = [("sslmode" if key == "ssl" else key, value) for key, value in pairs]
        extra = {key: value for key, value in pairs if key not in known and key != "ssl"}
        kept = [(key, value) for key, value in pairs if key not in extra]
        url = f"{rest}?{urlencode(kept, quote_via=quote)}" if kept else rest
    elif "://" in url:
        raise ConfigError("The database URL must start with postgres:// or postgresql://.")
    else:
        names = "|".join(sorted({*_PGX_PARAMETERS, "password_file"}))
        pgx = rf"\b(pool_\w+|{names})\s*=\s*('(?:[^'\\]|\\.)*'|\S+)"
        extra = {match[1]: match[2].strip("'") for match in re.finditer(pgx, url)}
        url = re.sub(pgx, "", url)
    try:
        parameters = {
            key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None
        }
    except psycopg.Error:
        # libpq's message would quote the line, and with it the password.
        raise ConfigError("The database URL is not valid.") from None
    size = _size(extra.pop("pool_max_conns", None))
    if file := extra.pop("password_file", ""):
        parameters["password_file"] = file
    settings = [
        f"-c {key}=" + re.sub(r"[\\ ]", r"\\\g<0>", value)
        for key, value in extra.items()
        if not key.startswith("pool_") and key not in _PGX_PARAMETERS | _SQLALCHEMY_PARAMETERS
    ]
    if settings:
        parameters["options"] = " ".join(
            [parameters["options"], *settings] if "options" in parameters else settings
        )
    return parameters, size


def place(url: str) -> str:
    """Return the host, port and name of the database of a URL or `key=value` line, to be shown: no
    user and no password; ConfigError if it cannot be parsed.
    """
    parameters, _ = parse_url(url)
    server = parameters.get("host") or parameters.get("hostaddr", "")
    known = [server, parameters.get("port", "")]
    return "/".join(
        word for word in (":".join(filter(None, known)), parameters.get("dbname")) if word
    )


def _without_driver(url: str) -> tuple[str, bool]:
    """Return SQLAlchemy's URL without its driver, and whether that was asyncpg, which calls
    `sslmode` `ssl`.
    """
    found = re.match(r"(postgres(?:ql)?)\+(asyncpg|psycopg2?|psycopg_async)(?=://)", url)
    return (found[1] + url[found.end() :], found[2] == "asyncpg") if found else (url, False)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise ConfigError("pool_max_conns in the database URL must be a whole number above zero.")
    return min(int(text), _MAX_SIZE)
