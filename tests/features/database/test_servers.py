"""Faults that need a server of their own: prepared transactions, notifications, replication."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from riverui.demo.postgres import EmbeddedPostgres
from riverui.domain.findings import Finding, Level
from tests.conftest import create_database, migrate_template, with_database
from tests.databases.streaming import Servers, binaries, streaming
from tests.features.database.conftest import look, mend
from tests.interop.look import eventually

pytestmark = pytest.mark.long

_SETTINGS = ("max_prepared_transactions = 3", "wal_level = logical", "max_notify_queue_pages = 64")
_BURN = "do $$ begin for n in 1..12000 loop perform txid_current(); commit; end loop; end $$"
_DEAD = (
    "alter table river_queue set (autovacuum_enabled = off);"
    "insert into river_queue (name, updated_at) select n, now() from generate_series(1, 11000) n;"
    "delete from river_queue"
)


def _migrated(admin: str) -> str:
    """Return the URL of a new database with River's tables."""
    url = with_database(admin, create_database(admin))
    migrate_template(url, "main")
    return url


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield a database on a server with these settings, which need a restart."""
    with TemporaryDirectory(prefix="riverui-doctor-") as folder:
        home = Path(folder)
        home.chmod(0o711)
        for restarted in (False, True):
            with EmbeddedPostgres(home / "data", durable=False, binaries=binaries()) as postgres:
                if restarted:
                    yield _migrated(postgres.url)
                else:
                    with psycopg.connect(postgres.url, autocommit=True) as connection:
                        for setting in _SETTINGS:
                            connection.execute(f"alter system set {setting}".encode())


async def test_a_prepared_transaction(server: str) -> None:
    with psycopg.connect(server) as connection:
        connection.execute("select txid_current(); prepare transaction 'it''s mine'")
        connection.rollback()
    later = timedelta(minutes=11)
    assert (await look(server, "held")).level is Level.OK
    finding = await look(server, "held", after=later)
    assert finding.level is Level.WARN
    assert finding.title.startswith("Prepared transaction it's mine keeps")
    mend(server, finding)
    assert (await look(server, "held", after=later)).level is Level.OK


async def test_a_logical_slot_that_nobody_reads(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("select pg_create_logical_replication_slot('left_over', 'pgoutput')")
    finding = await look(server, "held")
    assert finding.title.startswith("Inactive replication slot left_over keeps")
    mend(server, finding)
    assert (await look(server, "held")).level is Level.OK


async def test_notifications_that_nobody_reads(server: str) -> None:
    with psycopg.connect(server) as listener, psycopg.connect(server, autocommit=True) as busy:
        listener.execute("listen slow")
        listener.commit()
        listener.execute("select txid_current()")
        for n in range(60):
            busy.execute("select pg_notify('slow', %s)", [f"{n} {'x' * 7000}"])
        finding = await look(server, "notifications")
        assert finding.level in (Level.WARN, Level.CRITICAL)
        mend(server, finding)
        with pytest.raises(psycopg.errors.AdminShutdown):
            listener.execute("select 1")

    async def state() -> Finding:
        with psycopg.connect(server, autocommit=True) as other:
            # The queue is cut when somebody who listens reads it.
            other.execute("listen slow")
            other.execute("notify slow")
        return await look(server, "notifications")

    await eventually(state, fits=lambda finding: finding.level is Level.OK)


async def test_a_server_without_autovacuum(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("alter system set autovacuum = off")
        connection.execute("select pg_reload_conf()")

    async def state() -> Finding:
        return await look(server, "autovacuum")

    finding = await eventually(state, fits=lambda finding: finding.level is Level.CRITICAL)
    mend(server, finding)
    await eventually(state, fits=lambda finding: finding.level is Level.OK)


@pytest.fixture
def followed() -> Iterator[tuple[Servers, str]]:
    """Yield a primary with a standby that reports its snapshots, and a database."""
    feedback = ["hot_standby_feedback = on", "wal_receiver_status_interval = 1"]
    made: list[str] = []
    with streaming(lambda admin: made.append(_migrated(admin)), settings=feedback) as servers:
        yield servers, made[0]


async def test_a_standby_and_the_slot_that_it_leaves(followed: tuple[Servers, str]) -> None:
    servers, primary = followed
    standby = servers.urls(str(conninfo_to_dict(primary)["dbname"]))[1]

    async def dead() -> Finding:
        with psycopg.connect(primary, autocommit=True) as connection:
            connection.execute("vacuum river_queue")
        return await look(primary, "dead_rows")

    async def held() -> Finding:
        return await look(primary, "held")

    with psycopg.connect(standby) as report:
        report.execute("set transaction isolation level repeatable read")
        report.execute("select count(*) from river_queue")

        # The standby reports its snapshot before the rows die.
        async def told() -> bool:
            with psycopg.connect(servers.primary) as connection:
                row = connection.execute(
                    "select backend_xmin is not null from pg_stat_replication"
                ).fetchone()
            return row == (True,)

        await eventually(told)
        with psycopg.connect(primary, autocommit=True) as connection:
            connection.execute(_BURN)
            connection.execute(_DEAD)
        finding = await eventually(dead, fits=lambda found: found.level is not Level.OK)
        assert "standby walreceiver may still see them" in finding.evidence
        ending = finding.statement.split("\nselect pg_sleep")[0]
        with psycopg.connect(standby, autocommit=True) as connection:
            connection.execute(ending.encode())
        with pytest.raises(psycopg.errors.AdminShutdown):
            report.execute("select 1")
    await eventually(dead, fits=lambda found: found.level is Level.OK, within=20)

    with psycopg.connect(primary, autocommit=True) as connection:
        connection.execute("select pg_create_physical_replication_slot('follower')")
    with psycopg.connect(servers.standby, autocommit=True) as connection:
        connection.execute("alter system set primary_slot_name = 'follower'")
        connection.execute("select pg_reload_conf()")

    async def following() -> bool:
        with psycopg.connect(servers.primary) as connection:
            row = connection.execute(
                "select xmin is not null from pg_replication_slots where active"
            ).fetchone()
        return row == (True,)

    await eventually(following, within=20)
    assert (await held()).level is Level.OK
    servers.stop()
    finding = await eventually(held, fits=lambda found: found.level is not Level.OK)
    assert finding.title.startswith("Inactive replication slot follower keeps")
    mend(primary, finding)
    assert (await held()).level is Level.OK
