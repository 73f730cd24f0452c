"""The fixtures of pytest, as docs/jobs/testing.md has them and in the tests of somebody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/jobs/testing.md"
INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
_BLOCK = re.compile(
    r"^```(?:python|ini)\n# (\S+\.(?:py|ini))\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


def run(folder: Path, *options: str, **environ: str) -> tuple[int, str]:
    """Run pytest in a folder; return its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environ},
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def blocks() -> Sequence[tuple[str, str]]:
    """Return the files that the page shows, by name, in its order."""
    return _BLOCK.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.long
def test_the_page_does_as_it_is_written(tmp_path: Path) -> None:
    first: dict[str, str] = {}
    for name, text in blocks():
        first.setdefault(name, text)
    assert set(first) == {"conftest.py", "pytest.ini", "accounts.py", "test_accounts.py"}
    write(tmp_path, first)
    code, said = run(tmp_path, DATABASE_URL="", PGHOST="nowhere.invalid")
    assert code == 0, said
    assert "2 passed" in said


@pytest.mark.long
def test_the_same_tests_on_a_postgres(tmp_path: Path, database_url: str) -> None:
    write(tmp_path, dict(blocks()))
    code, said = run(tmp_path, TEST_DATABASE_URL=database_url)
    assert code == 0, said
    assert "2 passed" in said


_SHOP = """
from dataclasses import dataclass
from typing import ClassVar

import pytest
from riverui import ClientConfig, Client, Job, QueueConfig, Worker, Workers
from riverui.testing import MemoryDatabase, require_inserted
from riverui.testing.sync import drain, require_inserted as sync_require_inserted

@dataclass
class Mail:
    kind: ClassVar[str] = "mail"
    to: str

class Mailer(Worker[Mail]):
    async def work(self, job: Job[Mail]) -> None:
        pass

@pytest.fixture
def river_config():
    workers = Workers()
    workers.add(Mailer())
    queues = {"default": QueueConfig(max_workers=1)}
    return ClientConfig(max_attempts=7, queues=queues, workers=workers)
"""
_SYNC = """
@pytest.mark.parametrize("number", range(2))
def test_sync(sync_river, number):
    assert sync_river.job_list().jobs == []
    sync_river.insert(Mail("ann"))
    sync_require_inserted(sync_river, Mail("ann"), max_attempts=7)
    assert drain(sync_river).completed == 1
"""
_ASYNC = """
async def test_both_look_into_one_database(river, sync_river, river_database):
    sync_river.insert(Mail("ann"))
    await require_inserted(river, Mail("ann"))
    assert isinstance(river_database, MemoryDatabase)

async def test_it_can_be_started(river):
    async with river:
        subscription = river.subscribe("job_completed")
        await river.insert(Mail("bob"))
        event = await anext(subscription)
    assert event.job.attempt == 1
"""


def test_the_fixtures_in_somebodys_tests(tmp_path: Path) -> None:
    plugins = 'pytest_plugins = ["riverui.testing"]\n'
    write(
        tmp_path,
        {"conftest.py": plugins, "test_shop.py": _SHOP + _SYNC + _ASYNC, "pytest.ini": INI},
    )
    code, said = run(tmp_path)
    assert code == 0, said
    assert "4 passed" in said


@pytest.mark.long
def test_a_synchronous_client_on_a_postgres(tmp_path: Path, database_url: str) -> None:
    override = f"""
@pytest.fixture
def river_database():
    return {database_url!r}
"""
    plugins = 'pytest_plugins = ["riverui.testing"]\n'
    write(tmp_path, {"conftest.py": plugins, "test_shop.py": _SHOP + override + _SYNC})
    code, said = run(tmp_path)
    assert code == 0, said
    assert "2 passed" in said


@pytest.mark.long
def test_without_pytest_asyncio(tmp_path: Path) -> None:
    missing = "import sys\nsys.modules['pytest_asyncio'] = None\n"
    plugins = f'{missing}pytest_plugins = ["riverui.testing"]\n'
    ask = "\ndef test_river(river):\n    pass\n"
    write(tmp_path, {"conftest.py": plugins, "test_shop.py": _SHOP + _SYNC + ask})
    code, said = run(tmp_path, "-p", "no:asyncio")
    assert code == 1
    assert "2 passed, 1 error" in said
    assert "The fixture “river” needs pytest-asyncio" in said


@pytest.mark.long
@pytest.mark.parametrize("module", ["riverui.testing", "riverui.testing.sync"])
def test_without_pytest(module: str) -> None:
    program = f"import sys\nsys.modules['pytest'] = None\nimport {module}\nprint('there')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True, timeout=60
    )
    assert done.stdout == "there\n", done.stderr
