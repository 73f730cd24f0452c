"""What type checkers tell programs that use riverui: mypy and pyright, both strict, run on such
programs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TYPED = {path.stem: path.read_text() for path in (ROOT / "tests/typed").glob("*.txt")}
"""Programs as users write them: a line that ends in `# wrong` must be refused, and no other."""
Lines = Mapping[str, set[int]]

PROGRAM = """
from __future__ import annotations
import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import riverui


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"

    strings: list[str] = dataclasses.field(default_factory=list)


@dataclass
class Official:
    number: int
    kind: str = "official"

    def to_json(self) -> str:
        return "{}"


@dataclass
class Kindless:
    number: int = 1


workers = riverui.Workers()


@workers.work(Sort)
async def sort(job: riverui.Job[Sort]) -> None:
    reveal_type(job.args.strings)


@workers.work
def bare(job: riverui.Job[Official]) -> None: ...


@workers.work(timeout=timedelta(seconds=1))
async def limited(job: riverui.Job[Sort]) -> None: ...


@workers.work(Sort)  # wrong
def other(job: riverui.Job[Official]) -> None: ...


async def insert(client: riverui.Client, river: riverui.SyncClient) -> None:
    await client.insert(Sort())
    await client.insert_many([Sort(), riverui.InsertManyParams(Official(1))])
    river.insert(Official(1), riverui.InsertOpts(queue="slow"))
    river.insert_many([riverui.JsonArgs("sort", {})])
    await client.insert("sort")  # wrong
    await client.insert(Sort)  # wrong
    await client.insert({"kind": "sort"})  # wrong
    await client.insert(Kindless())  # wrong
    river.insert(Official)  # wrong
    river.insert_many([Sort(), "sort"])  # wrong
    riverui.InsertManyParams(Sort)  # wrong


async def call(job: riverui.Job[Sort]) -> None:
    await sort(job)
"""


def test_mistakes_are_told_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)],
        capture_output=True,
        text=True,
        check=False,
        # Where the project's own cache is, so that this takes a second or two.
        cwd=ROOT,
    )
    told = {int(number) for number in re.findall(r"program\.py:(\d+): error", done.stdout)}
    wrong = {
        number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")
    }
    assert told == wrong, done.stdout + done.stderr
    assert 'Revealed type is "list[str]"' in done.stdout.replace("builtins.", "")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs, which no settings but its own apply to."""
    folder = tmp_path_factory.mktemp("typed")
    for name, text in TYPED.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    return folder


@pytest.fixture(scope="module")
def told_by_mypy(programs: Path) -> Lines:
    """Return the lines that it refuses, by program."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(programs)],
        capture_output=True,
        text=True,
        check=False,
        # Where the project's own cache is.
        cwd=ROOT,
    )
    assert not done.stderr, done.stderr
    return lines_in(re.findall(r"(\w+)\.py:(\d+): error", done.stdout))


@pytest.fixture(scope="module")
def told_by_pyright(programs: Path) -> Lines:
    """Return the lines that it refuses, by program."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(programs)],
        capture_output=True,
        text=True,
        check=False,
        cwd=programs,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return lines_in(re.findall(r"(\w+)\.py:(\d+):\d+ - error", done.stdout))


def lines_in(found: list[tuple[str, str]]) -> Lines:
    """Return what a type checker printed, by program."""
    told: dict[str, set[int]] = {name: set() for name in TYPED}
    for name, number in found:
        told[name].add(int(number))
    return told


def lines_of(name: str, numbers: set[int]) -> list[str]:
    lines = TYPED[name].splitlines()
    return [f"{number}: {lines[number - 1].strip()}" for number in sorted(numbers)]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("name", TYPED)
def test_only_mistakes_are_refused(name: str, checker: str, request: pytest.FixtureRequest) -> None:
    told: Lines = request.getfixturevalue(f"told_by_{checker}")
    lines = enumerate(TYPED[name].splitlines(), 1)
    wrong = {number for number, line in lines if line.endswith("# wrong")}
    assert lines_of(name, wrong - told[name]) == []
    assert lines_of(name, told[name] - wrong) == []
    assert len(wrong) > 3
