"""A Postgres that passes for YugabyteDB, as far as its documents tell what it lacks.

It says so in its version, has the settings, and refuses what YugabyteDB refuses: NOTIFY and LISTEN
where they are off, transaction ids, advisory locks where they are off, REINDEX, and the columns
that Postgres gives each row. How YugabyteDB stores, plans and locks is not imitated.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import psycopg
from psycopg.conninfo import conninfo_to_dict

VERSION = b"15.12-YB-2025.2.3.0-b1"
_SETTINGS = """
create function public.current_setting(name text, missing_ok boolean) returns text
language sql as $$
  select case name
    when 'yb_enable_listen_notify' then {listen_notify}
    when 'yb_effective_transaction_isolation_level' then '{isolation}'
    else pg_catalog.current_setting(name, missing_ok)
  end
$$;
"""
_ROW_IDS = """
alter table if exists public.{table} add column if not exists ybctid bytea
  not null default decode(md5(gen_random_uuid()::text), 'hex')
"""
"""A column like the one that YugabyteDB gives each row in place of `ctid`."""
_TABLES = ("riverui_rollup", "riverui_sequence_job")
"""Those whose rows are named by it."""
_REFUSALS = {
    "txid_current()": ("bigint", "txid_current() is not supported"),
    "txid_status(bigint)": ("text", "txid_status() is not supported"),
    "pg_current_wal_flush_lsn()": ("pg_lsn", "there is no write-ahead log"),
}
_NO_NOTIFY = {"pg_notify(text, text)": ("void", "LISTEN/NOTIFY is disabled")}
_NO_LOCKS = {
    "pg_advisory_xact_lock(bigint)": ("void", "advisory locks are not yet implemented"),
    "pg_try_advisory_xact_lock(bigint)": ("boolean", "advisory locks are not yet implemented"),
}
_UNKNOWN = re.compile(rb"\b(xmin|xmax|cmin|cmax|ctid|reindex)\b", re.IGNORECASE)
"""What the server is sent another word of the same length for, which it does not know either."""
_ENCRYPTION = (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30")
"""What libpq asks before all else, for TLS and for GSSAPI: there is neither."""
_LISTEN = re.compile(rb"\blisten(?= \")", re.IGNORECASE)


@contextmanager
def yugabyte(
    url: str,
    *,
    listen_notify: str | None = "off",
    advisory_locks: bool = True,
    isolation: str = "read committed",
) -> Iterator[str]:
    """Yield the address of a database as YugabyteDB would have it; `listen_notify` is None where
    the release does not know the setting.
    """
    told = "null" if listen_notify is None else f"'{listen_notify}'"
    refusals = dict(_REFUSALS)
    if listen_notify != "on":
        refusals |= _NO_NOTIFY
    if not advisory_locks:
        refusals |= _NO_LOCKS
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SETTINGS.format(listen_notify=told, isolation=isolation).encode())
        for function, (answer, words) in refusals.items():
            connection.execute(
                f"create function public.{function} returns {answer} language plpgsql as"
                f" $$ begin raise '{words}' using errcode = '0A000'; end $$".encode()
            )
        for table in _TABLES:
            connection.execute(_ROW_IDS.format(table=table).encode())
        database = connection.info.dbname
        connection.execute(
            f'alter database "{database}" set search_path = public, pg_catalog'.encode()
        )
    with closing(_Proxy(url, listens=listen_notify == "on")) as proxy:
        parts = conninfo_to_dict(url)
        yield f"postgresql://{parts['user']}@127.0.0.1:{proxy.port}/{parts['dbname']}"


class _Proxy:
    """Passes on what clients and server say, but for some words."""

    def __init__(self, url: str, *, listens: bool) -> None:
        self._server = conninfo_to_dict(url)
        self._listens = listens
        self._open: set[socket.socket] = set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self._start(self._welcome)

    def close(self) -> None:
        """End all connections."""
        for each in (self._door, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _start(self, work: object, *given: object) -> None:
        threading.Thread(target=work, args=given, daemon=True).start()  # type: ignore[arg-type]

    def _welcome(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = self._connect()
                self._open |= {client, server}
                self._start(self._pass_on, client, server, False)
                self._start(self._pass_on, server, client, True)

    def _connect(self) -> socket.socket:
        host, port = str(self._server["host"]), int(str(self._server.get("port", 5432)))
        if host.startswith("/"):
            found = socket.socket(socket.AF_UNIX)
            found.connect(f"{host}/.s.PGSQL.{port}")
            return found
        return socket.create_connection((host, port))

    def _pass_on(self, source: socket.socket, target: socket.socket, told: bool) -> None:
        """Pass on messages until one side ends; the first of a client has no type."""
        with suppress(OSError), source.makefile("rb") as stream:
            kind = b"" if not told else stream.read(1)
            while length := stream.read(4):
                body = stream.read(int.from_bytes(length, "big") - 4)
                if not kind and body in _ENCRYPTION:
                    source.sendall(b"N")
                    continue
                body = self._told(kind, body) if told else self._asked(kind, body)
                target.sendall(kind + (len(body) + 4).to_bytes(4, "big") + body)
                kind = stream.read(1)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _told(self, kind: bytes, body: bytes) -> bytes:
        name = b"server_version\0"
        return name + VERSION + b"\0" if kind == b"S" and body.startswith(name) else body

    def _asked(self, kind: bytes, body: bytes) -> bytes:
        if kind not in (b"Q", b"P"):
            return body
        body = _UNKNOWN.sub(lambda found: b"q" * len(found[0]), body)
        return body if self._listens else _LISTEN.sub(b"qqqqqq", body)
