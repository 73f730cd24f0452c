"""`examples/frameworks`, each as its README says: real servers, and who signs up is welcomed."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.operators import look_around
from tests.ports import free_port
from tests.program import Program, environment
from tests.worker.conftest import wait_for

ROOT = Path(__file__).parents[2]
README = ROOT / "examples" / "frameworks" / "README.md"
OPS = httpx2.BasicAuth("ops", "a long password")
SECTIONS = re.split(r"^## (.+)\n", README.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
COMMANDS = {
    name: re.findall(r"^    (\w.*)$", text, re.MULTILINE)
    for name, text in zip(SECTIONS[::2], SECTIONS[1::2], strict=True)
}
"""What the README has a reader type for each framework."""


def started(command: str, environ: dict[str, str]) -> Program:
    """Start a command of the README with free ports in place of its own."""
    name, *words = command.replace("8000", environ["PORT"]).split()
    words = [word.replace("8080", environ["DASHBOARD_PORT"]) for word in words]
    return Program(
        Path(sys.executable).with_name(name), *words, folder=ROOT, environ=environment(**environ)
    )


def answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code < 500
    except httpx2.TransportError:
        return False


def any_ended(programs: list[Program]) -> bool:
    return not all(program.running for program in programs)


@pytest.mark.parametrize("name", COMMANDS)
def test_who_signs_up_is_welcomed_and_the_dashboard_shows_it(name: str, database_url: str) -> None:
    app, beside = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    dashboard = beside if name == "aiohttp" else f"{app}/riverui"
    environ = {
        "DATABASE_URL": database_url,
        "DASHBOARD_PORT": beside.rpartition(":")[2],
        "PORT": app.rpartition(":")[2],
        "RIVER_BASIC_AUTH_USER": "ops",
        "RIVER_BASIC_AUTH_PASS": "a long password",
    }
    if "--workers" in COMMANDS[name][0]:
        with psycopg.connect(database_url) as connection:
            connection.execute(
                "create table users (id bigserial primary key, name text, welcomed boolean)"
            )
    programs = [started(command, environ) for command in COMMANDS[name]]
    try:
        wait_for(lambda: answers(f"{app}/users/1") or any_ended(programs), seconds=60)
        wait_for(lambda: answers(dashboard) or any_ended(programs), seconds=60)
        assert not any_ended(programs)

        user = httpx2.post(f"{app}/users/ann").raise_for_status().json()["id"]
        assert httpx2.get(f"{app}/users/{user + 1}").status_code == 404
        wait_for(lambda: httpx2.get(f"{app}/users/{user}").json()["welcomed"])

        assert httpx2.get(f"{dashboard}/jobs").status_code == 401
        with httpx2.Client(auth=OPS) as operator:
            assert "welcome" in look_around(operator, dashboard)
        # The exit code of some servers says that a signal ended them.
        assert {program.stop() for program in programs} <= {0, -signal.SIGTERM}
    finally:
        print(*(program.output for program in programs), sep="")
        for program in programs:
            program.close()
