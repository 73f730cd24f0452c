"""What type checkers tell a program that uses riverui: mypy, run on such a program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

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
