"""What a server tells of itself: too old ones, and others that speak the same protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest

from riverui.errors import ServerTooOld
from riverui.storage.options import ConnectOptions
from riverui.storage.postgres.connect import connect
from riverui.storage.postgres.limits import LIMITS
from riverui.storage.postgres.sessions import product_of
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
    async with browser(build_app(driver, SignIn(no_auth=True))) as visitor:
        answer = await visitor.get("/jobs/1")
        assert answer.status_code == 503
        assert "The database server is too old" in answer.text
    await driver.close()


@pytest.mark.parametrize(
    ("told", "number", "product"),
    [
        ("18.6", 180006, "PostgreSQL"),
        ("15.12 (Debian 15.12-0+deb12u2)", 150012, "PostgreSQL"),
        ("15.12-YB-2025.2.3.0-b0", 150012, "YugabyteDB"),
    ],
)
def test_a_server_is_known_by_its_version(told: str, number: int, product: str) -> None:
    assert product_of(_Told(told, number), 13) == product  # type: ignore[arg-type]


class _Told:
    """What a connection is told by its server when it begins."""

    def __init__(self, version: str, number: int) -> None:
        self.pgconn = self
        self.info = self
        self.server_version = number
        self._version = version

    def parameter_status(self, name: bytes) -> bytes:
        return self._version.encode()
