"""docs/operate/running.md: its commands, defaults and versions are those of the program."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import ClientConfig, DeadLetterConfig, DurablePeriodicJobsConfig, connect
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner
from riverui.features.dead_letters.engine.feature import DeadLetterCleaner
from riverui.features.rate_limits.engine import RateCleaner
from riverui.features.retention.engine import QueueRetentionCleaner
from riverui.storage.migrations import migrate
from tests.docs.programs import DOCS, Run, in_blocks, in_text
from tests.factory import job

PAGE = (DOCS / "operate/running.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text of a section, with its subsections."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def table(title: str) -> dict[str, list[str]]:
    """Return the rows of a section's first table by their first cell."""
    lines = section(title).partition("\n|---")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows}


SERVICES = table("The services")
SETTINGS = table("The settings")
UPGRADING = section("Upgrading")


async def _migrate(url: str, version: int) -> None:
    driver = connect(url)
    await migrate(driver, "up", target_version=version)
    await driver.close()


def test_upgrading_from_an_old_database_and_back(
    run: Run, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_migrate(empty_database_url, 5))
    monkeypatch.setenv("DATABASE_URL", empty_database_url)
    assert run("riverui validate")[0] == 1
    commands = in_blocks(UPGRADING)
    assert len(commands) == 9
    for command in commands:
        code, printed = run(command)
        if command == "riverui health":
            assert code in (0, 1, 2)
            assert "figures" in printed
        else:
            assert code == 0, f"{command}: {printed}"
    assert run("riverui validate --line main --line riverui")[0] == 0
    # The line main cannot go below 5 while the other line is there.
    code, printed = run("riverui migrate-down --target-version 4 --yes")
    assert code == 1, printed
    assert run("riverui migrate-down --line riverui --target-version 0 --yes")[0] == 0
    assert run("riverui migrate-down --target-version 4 --yes")[0] == 0


def test_the_versions_that_the_page_names_are_the_newest(run: Run) -> None:
    main_line, own_line = re.findall(r"\| up to (\d+)", UPGRADING)
    for line, newest in (("main", int(main_line)), ("riverui", int(own_line))):
        get = f"riverui migrate-get --up --line {line} --version"
        assert run(f"{get} {newest}")[0] == 0
        assert run(f"{get} {newest + 1}")[0] == 1


def test_the_commands_of_the_checklist(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    commands = in_text(section("Checklist"))
    assert len(commands) >= 10
    assert run("riverui migrate-up --line riverui")[0] == 0
    # No server runs, so that nothing answers; a demo would run until it is stopped.
    accepted = {"riverui health": (0, 1, 2), "riverui healthcheck minimal": (1,)}
    for command in dict.fromkeys(commands):
        if not command.startswith("riverui demo"):
            code, printed = run(command)
            assert code in accepted.get(command, (0,)), f"{command}: {code}: {printed}"


def test_each_item_of_the_checklist_has_a_link() -> None:
    items = re.findall(r"^- \[ \] (.*?)(?=^- |^\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(items) > 30
    assert [item for item in items if "](" not in item] == []


def words(value: object) -> str:
    """Return a default as the page writes it."""
    match value:
        case timedelta():
            seconds = value.total_seconds()
            if seconds > 86400:
                return f"{seconds / 86400:.0f} days"
            unit = next(unit for unit in (3600, 60, 1) if seconds >= unit)
            return f"{seconds / unit:.0f} {({3600: 'h', 60: 'min', 1: 's'})[unit]}"
        case DeadLetterConfig() | DurablePeriodicJobsConfig():
            return "on" if value.enabled else "off"
    off: dict[object, str] = {None: "off", False: "off", (): "none"}
    return off[value]


def test_the_defaults_are_those_of_the_config() -> None:
    config = ClientConfig()
    names = [field.name for field in fields(ClientConfig)]
    assert set(names[names.index("heartbeat_interval") :]) <= set(SETTINGS)
    special = {
        "rescue_stuck_jobs_after": words(config.rescue_after),
        "reindexer_schedule": SERVICES["reindexer"][0],
        "reindexer_index_names": "River's",
    }
    for name, row in SETTINGS.items():
        assert row[0] == (special.get(name) or words(getattr(config, name))), name


def test_the_services_run_as_often_as_the_page_says() -> None:
    services: dict[str, Any] = {
        "dead letter cleaner (riverui)": DeadLetterCleaner,
        "job cleaner": JobCleaner,
        "job rescuer": JobRescuer,
        "job scheduler": JobScheduler,
        "queue cleaner": QueueCleaner,
        "queue retention (riverui)": QueueRetentionCleaner,
        "rate limits (riverui)": RateCleaner,
    }
    assert services.keys() | {"periodic job enqueuer", "reindexer"} == SERVICES.keys()
    for name, service in services.items():
        assert SERVICES[name][0] == words(service.interval), name


async def test_the_statement_counts_what_is_overdue(
    connection: AsyncConnection[DictRow],
) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)

    async def overdue() -> set[int]:
        (row,) = await (await connection.execute(statement)).fetchall()
        return set(row.values())

    assert await overdue() == {0}
    long_ago = datetime.now(UTC) - timedelta(hours=26)
    await job(connection, "scheduled", scheduled_at=long_ago)
    await job(connection, "running", attempted_at=long_ago)
    await job(connection, "completed", finalized_at=long_ago)
    assert await overdue() == {1}
