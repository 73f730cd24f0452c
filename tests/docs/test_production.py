"""The commands of the pages about production and upgrading do what is said there."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import psycopg
import pytest

from riverui import Client, connect
from riverui.cli.main import main
from riverui.storage.migrations import migrate
from tests.docs.programs import DOCS

Run = Callable[[str], tuple[int, str]]
PRODUCTION = (DOCS / "operate/production.md").read_text(encoding="utf-8")
UPGRADING = (DOCS / "operate/upgrading.md").read_text(encoding="utf-8")


def in_blocks(page: str) -> list[str]:
    """Return the commands of a page's blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("riverui ")]


def in_text(page: str) -> list[str]:
    """Return the commands between backticks."""
    return re.findall(r"`(riverui [a-z][^`…]*)`", page)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; return its exit code and what it printed."""

    def call(command: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        printed = capfd.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return call


async def _at(url: str, version: int) -> None:
    driver = connect(url)
    await migrate(driver, "up", target_version=version)
    await driver.close()


def test_upgrading_from_an_old_database_and_back(
    run: Run, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_at(empty_database_url, 5))
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
    # What the page says of the line main while the other is there.
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


@dataclass
class MailArgs:
    kind: ClassVar[str] = "mail_send"


async def _insert(url: str) -> None:
    client = Client(url)
    await client.insert(MailArgs())
    await client.stop()


def test_the_commands_of_the_checklist(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    asyncio.run(_insert(database_url))
    commands = in_text(PRODUCTION)
    assert len(commands) >= 12
    assert run("riverui migrate-up --line riverui")[0] == 0
    for command in dict.fromkeys(commands):
        if command.startswith("riverui demo"):
            continue  # it goes on until it is stopped; tests/demo plays each incident
        code, printed = run(command)
        # No server runs here, and nobody is at a terminal to answer.
        accepted = {
            "riverui health": (0, 1, 2),
            "riverui healthcheck minimal": (1,),
            'riverui job cancel --search "kind:mail_send created:<2h"': (2,),
        }.get(command, (0,))
        assert code in accepted, f"{command}: {code}: {printed}"
        assert "No such" not in printed
        assert "Usage" not in printed


def test_a_restored_database_is_held_until_somebody_has_looked(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    asyncio.run(_insert(database_url))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("insert into river_queue (name, updated_at) values ('default', now())")
        for command in in_blocks(PRODUCTION):
            assert run(command)[0] == 0, command
        paused = connection.execute("select paused_at is not null from river_queue").fetchall()
        assert paused == [(True,)]
        (cancel,) = [each for each in in_text(PRODUCTION) if "job cancel" in each]
        assert run(f"{cancel} --yes")[0] == 0
        states = connection.execute("select state::text from river_job").fetchall()
        assert states == [("cancelled",)]
        assert run("riverui queue resume --all")[0] == 0


def test_each_tick_leads_somewhere() -> None:
    ticks = re.findall(r"^- \[ \] (.*?)(?=^- |^\n|\Z)", PRODUCTION, re.MULTILINE | re.DOTALL)
    assert len(ticks) > 30
    for tick in ticks:
        assert "](" in tick, tick
