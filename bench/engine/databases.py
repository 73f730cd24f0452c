"""Fresh databases for one run each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from secrets import token_hex
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate

_FINISHED = """
insert into river_job (state, attempt, max_attempts, attempted_at, attempted_by, created_at,
finalized_at,
  scheduled_at, args, kind, metadata)
select 'completed', 1, 25, at, '{bench}', at, at, at, jsonb_build_object('num', number),
'benchmark', '{}'
from (select number, now() - number * interval '50 ms' as at from generate_series(1, %s) number)
jobs
"""


class Databases:
    """Makes them on one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._templates: dict[int, str] = {}

    @contextlib.contextmanager
    def fresh(self, *, finished: int | None = 0) -> Iterator[str]:
        """Yield a database's URL: River's tables with so many finished jobs; None is without
        tables.
        """
        template = "template1" if finished is None else self._template(finished)
        name = f"riverui_bench_{token_hex(4)}"
        self._create(name, template)
        try:
            yield self._url(name)
        finally:
            self._drop(name)

    def close(self) -> None:
        """Drop the templates."""
        for name in self._templates.values():
            self._drop(name)

    def _template(self, finished: int) -> str:
        if finished not in self._templates:
            name = self._templates[finished] = f"riverui_bench_template_{finished}_{token_hex(4)}"
            self._create(name, "template1")
            asyncio.run(_migrate(self._url(name)))
            with psycopg.connect(self._url(name), autocommit=True) as connection:
                connection.execute(_FINISHED, [finished])
                connection.execute("vacuum (analyze) river_job")
        return self._templates[finished]

    def _create(self, name: str, template: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            names = sql.Identifier(name), sql.Identifier(template)
            connection.execute(sql.SQL("create database {} template {}").format(*names))
            # As a server is by default: the embedded one, made for demos, does not wait for the
            # disk.
            connection.execute(
                sql.SQL("alter database {} set synchronous_commit = on").format(names[0])
            )
            connection.execute("checkpoint")

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )

    def _url(self, name: str) -> str:
        return with_parts(self._server, dbname=name)


def with_parts(url: str, **parts: str) -> str:
    """Return the same address with other parts, as a URL: asyncpg and Go take no other form."""
    given = {
        name: str(value) for name, value in {**conninfo_to_dict(url), **parts}.items() if value
    }
    user, password, dbname = (
        quote(given.pop(name, ""), safe="") for name in ("user", "password", "dbname")
    )
    account = user + (f":{password}" if password else "") + ("@" if user else "")
    return f"postgresql://{account}/{dbname}?{urlencode(given)}"


async def _migrate(url: str) -> None:
    driver = connect(url)
    await migrate(driver, "up")
    await driver.close()
