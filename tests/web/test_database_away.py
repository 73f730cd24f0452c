"""A dashboard that starts before its database: it does not advise to make tables that it could not
look for, and finds them once the database is there.
"""

from __future__ import annotations

from secrets import token_hex

import psycopg
from psycopg import sql

from riverui.engine.feature_list import plain_pilot
from riverui.storage.connect import connect
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests.conftest import drop_database, with_database
from tests.engine.conftest import until
from tests.web.stand_ins import browser
from tests.web.test_routes import ENTRIES, method, path

ADVICE = ("migrate-up", "Migration 0", "migration 0", "in this process")
"""What is said where a table is not there."""


async def test_unreachable_is_not_without_tables(
    admin_url: str, own_template_database: str
) -> None:
    name = f"riverui_test_{token_hex(6)}"
    driver = connect(with_database(admin_url, name))
    app = build_app(
        driver,
        SignIn(no_auth=True),
        pilot=plain_pilot(),
        options=AppOptions(limits=DashboardLimits(tables_seconds=0.1)),
    )
    gets = {path(entry): entry for entry in ENTRIES if method(entry) == "GET"}
    # The help and the reference explain commands, and insert nothing.
    quiet = {"api", "api.openapi", "help", "jobs.new", "static"}
    async with app.router.lifespan_context(app), browser(app) as client:
        failures = []
        for at, entry in gets.items():
            answer = await client.get(at)
            told = [words for words in ADVICE if words in answer.text]
            if told and entry.name not in quiet:
                failures.append(f"{at}: {answer.status_code} {told}")
        assert not failures, "\n".join(failures)
        away = await client.get("/operations")
        assert away.status_code == 503
        assert "Database not found" in away.text
        with psycopg.connect(admin_url, autocommit=True) as admin:
            names = map(sql.Identifier, (name, own_template_database))
            admin.execute(sql.SQL("create database {} template {}").format(*names))
        try:

            async def operations_are_there() -> bool:
                found = await client.get("/operations")
                told = [words for words in ADVICE if words in found.text]
                return found.status_code == 200 and not told

            async def navigation_knows() -> bool:
                return 'href="/workflows"' in (await client.get("/help")).text

            await until(operations_are_there)
            await until(navigation_knows)
        finally:
            await driver.close()
            drop_database(admin_url, name)
