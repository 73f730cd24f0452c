"""Servers that are too old."""

from __future__ import annotations

from dataclasses import replace

import pytest

from riverui.engine.feature_list import plain_pilot
from riverui.errors import ServerTooOld
from riverui.storage.options import ConnectOptions
from riverui.storage.postgres.connect import connect
from riverui.storage.postgres.limits import LIMITS
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from tests.web.stand_ins import browser


async def test_a_server_that_is_too_old_is_told_in_a_line(database_url: str) -> None:
    limits = replace(LIMITS, oldest_server=99)
    driver = connect(database_url, None, ConnectOptions(), limits)
    for use in (driver.reading, driver.transaction, driver.autocommit, driver.migrating):
        with pytest.raises(ServerTooOld, match=r"This is PostgreSQL \d+.*: riverui needs 99 or"):
            async with use():
                pass
    with pytest.raises(ServerTooOld):
        await driver.listener()
    async with browser(build_app(driver, SignIn(no_auth=True), pilot=plain_pilot())) as visitor:
        answer = await visitor.get("/jobs/1")
        assert answer.status_code == 503
        assert "The database server is too old" in answer.text
    await driver.close()
