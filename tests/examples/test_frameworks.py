"""`examples/frameworks`, each as its README says: real servers, and who signs up is welcomed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.operators import look_around
from tests.ports import free_port
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


class Program:
    """A command of the README, with free ports in place of its own."""

    def __init__(self, command: str, environ: dict[str, str]) -> None:
        name, *words = command.split()
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name(name)), *words],
            cwd=ROOT,
            env={**inherited, "PYTHONDONTWRITEBYTECODE": "1", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self._reader.join(5)
            assert self.process.stdout is not None
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))


def answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code < 500
    except httpx2.TransportError:
        return False


def any_ended(programs: list[Program]) -> bool:
    return any(program.process.poll() is not None for program in programs)


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
    programs = [
        Program(
            command.replace("8000", environ["PORT"]).replace("8080", environ["DASHBOARD_PORT"]),
            environ,
        )
        for command in COMMANDS[name]
    ]
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
    except BaseException:
        print(*(line for program in programs for line in program.lines), sep="")
        raise
    finally:
        codes = [program.end() for program in programs]
    # Some servers tell by their exit code that a signal ended them.
    said = "".join(line for program in programs for line in program.lines)
    assert set(codes) <= {0, -signal.SIGTERM}, said
