"""TLS, certificates, services, password files, and passwords that change while riverui runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from httpx2 import AsyncClient
from psycopg_pool import AsyncConnectionPool

import riverui
from riverui import Client, ClientConfig, QueueConfig, SyncClient, Workers
from riverui.errors import ConfigError, DatabaseUnavailable, LoginRefused
from riverui.storage.migrations import migrate
from riverui.storage.options import Password
from tests.databases.signing_in import OWNER, PASSWORD, Guarded, guarded
from tests.databases.test_versions import Work
from tests.drivers import connect, connect_sync
from tests.interop.look import eventually
from tests.replicas.processes import PASSWORD as ADAS, replica
from tests.web.stand_ins import browser


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    """Yield a server that rejects connections without TLS."""
    with guarded() as found:
        asyncio.run(_migrated(found))
        yield found


async def _migrated(server: Guarded) -> None:
    driver = connect(url(server, password=PASSWORD))
    await migrate(driver, "up")
    await driver.close()


@pytest.fixture(autouse=True)
def _first_password(server: Guarded) -> Iterator[None]:
    yield
    server.change_password(PASSWORD)


def url(
    server: Guarded, *, user: str = OWNER, password: str = "", host: str = "localhost", **given: str
) -> str:
    """Return an address that verifies the server by default."""
    settings = {"sslmode": "verify-full", "sslrootcert": str(server.authority.file), **given}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in settings.items())
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://{user}{secret}@{host}:{server.port}/river?{query}"


async def _reached(address: str) -> str:
    driver = connect(address)
    try:
        await driver.ping()
        return driver.database
    finally:
        await driver.close()


async def test_a_server_is_verified(server: Guarded, tmp_path: Path) -> None:
    assert await _reached(url(server, password=PASSWORD)) == "river"
    with pytest.raises(DatabaseUnavailable, match="does not match host name"):
        # Its certificate is for another name.
        await _reached(url(server, password=PASSWORD, host="127.0.0.1"))
    stranger = tmp_path / "stranger.crt"
    stranger.write_bytes((server.authority.folder / "server.crt").read_bytes())
    with pytest.raises(DatabaseUnavailable, match="certificate verify failed"):
        await _reached(url(server, password=PASSWORD, sslrootcert=str(stranger)))
    with pytest.raises(LoginRefused):
        await _reached(url(server, password=PASSWORD, sslmode="disable", sslrootcert=""))


async def test_a_certificate_signs_in(server: Guarded) -> None:
    certificate, key = server.authority.issue("certain")
    files = {"sslcert": str(certificate), "sslkey": str(key)}
    assert await _reached(url(server, user="certain", **files)) == "river"
    other, key = server.authority.issue("another")
    with pytest.raises(LoginRefused):
        await _reached(url(server, user="certain", sslcert=str(other), sslkey=str(key)))


async def test_a_service_says_all(
    server: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, passwords = tmp_path / "pg_service.conf", tmp_path / "pgpass"
    service.write_text(
        f"[jobs]\nhost=localhost\nport={server.port}\ndbname=river\nuser={OWNER}\n"
        f"sslmode=verify-full\nsslrootcert={server.authority.file}\n"
    )
    _passfile(passwords, PASSWORD)
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert await _reached("service=jobs") == "river"
    assert await _reached("postgresql:///?service=jobs") == "river"
    environ = {
        "DATABASE_URL": "",
        "PGSERVICE": "jobs",
        "PGSERVICEFILE": str(service),
        "PGPASSFILE": str(passwords),
    }
    async with replica("", **environ) as dashboard:
        assert await dashboard.said("is listening")
        assert not [line for line in dashboard.lines if "Pages will say so" in line]
    monkeypatch.setenv("PGSERVICE", "jobs")
    app = riverui.create_app(no_auth=True)
    async with browser(app) as visitor:
        assert (await visitor.get("/jobs")).status_code == 200


def _passfile(file: Path, password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    file.write_text(f"localhost:*:river:{OWNER}:{escaped}\n")
    file.chmod(0o600)


@asynccontextmanager
async def _works_on(address: str, password: Password | None = None) -> AsyncIterator[None]:
    """Have a dashboard, a worker and a client without asyncio see all that comes."""
    seen: list[int] = []
    workers = Workers()

    @workers.task(kind="work")
    async def work(n: int) -> None:
        seen.append(n)

    driver = connect(address, password=password)
    sync = connect_sync(address, password=password)
    queues = {"default": QueueConfig(max_workers=5)}
    config = ClientConfig(
        fetch_poll_interval=timedelta(milliseconds=200), queues=queues, workers=workers
    )
    app = riverui.create_app(driver, no_auth=True)
    async with Client(driver, config) as river, browser(app) as visitor:

        async def all_go_on(n: int) -> bool:
            if (await visitor.get("/jobs")).status_code != 200:
                return False
            try:
                await river.insert(Work(n))
                await asyncio.to_thread(SyncClient(sync).insert, Work(n + 1))
            except DatabaseUnavailable:
                return False
            return True

        await eventually(lambda: all_go_on(1))
        await eventually(lambda: _seen(seen, 1, 2))
        yield
        await eventually(lambda: all_go_on(3))
        await eventually(lambda: _seen(seen, 3, 4))
    sync.close()
    await driver.close()


async def _seen(seen: list[int], *wanted: int) -> bool:
    return {*wanted} <= {*seen}


async def test_a_password_changes_in_its_file(server: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "pass word"
    file.write_text(f"{PASSWORD}\n")
    async with _works_on(url(server, password_file=str(file))):
        file.write_text("second\n")
        server.change_password("second")
    file.unlink()
    with pytest.raises(DatabaseUnavailable, match="password cannot be read"):
        await _reached(url(server, password_file=str(file)))


async def test_a_password_changes_in_libpqs_own_file(server: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    _passfile(file, PASSWORD)
    async with _works_on(url(server, passfile=str(file))):
        _passfile(file, "second")
        server.change_password("second")


async def test_a_program_gives_the_password_of_the_moment(server: Guarded) -> None:
    now = [PASSWORD]
    async with _works_on(url(server), lambda: now[0]):
        now[0] = "second"
        server.change_password("second")


async def test_a_token_may_be_awaited(server: Guarded) -> None:
    asked = []

    async def token() -> str:
        asked.append(1)
        return PASSWORD

    driver = connect(url(server), password=token)
    await driver.ping()
    await driver.close()
    assert asked
    sync = connect_sync(url(server), password=token)
    with pytest.raises(ConfigError, match="not awaited"):
        SyncClient(sync).insert(Work(1))


async def test_a_pool_of_the_programs_own_may_do_so(server: Guarded) -> None:
    now = [PASSWORD]
    async with AsyncConnectionPool(
        url(server), kwargs=lambda: {"password": now[0]}, min_size=0, max_size=2, open=False
    ) as pool:
        app = riverui.create_app(pool, no_auth=True)
        async with browser(app) as visitor:
            assert (await visitor.get("/jobs")).status_code == 200
            now[0] = "second"
            server.change_password("second")

            async def goes_on() -> bool:
                return (await visitor.get("/jobs")).status_code == 200

            assert await eventually(goes_on)


async def test_the_command_reads_the_file_again(server: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    environ = {"DATABASE_PASSWORD_FILE": str(file)}
    async with replica(url(server), **environ) as dashboard:
        base = f"http://127.0.0.1:{dashboard.port}"
        async with AsyncClient(base_url=base, auth=("ada", ADAS)) as visitor:
            assert (await visitor.get("/jobs")).status_code == 200
            file.write_text("second")
            server.change_password("second")

            async def goes_on() -> bool:
                return (await visitor.get("/jobs")).status_code == 200

            assert await eventually(goes_on)


def test_the_server_says_that_tls_is_used(server: Guarded) -> None:
    with psycopg.connect(url(server, password=PASSWORD)) as connection:
        row = connection.execute(
            "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
        ).fetchone()
    assert row == (True,)
