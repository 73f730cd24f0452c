"""The units are what systemd takes, and their settings and commands what riverui has."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from riverui.cli.main import riverui
from riverui.cli.settings import SETTINGS
from riverui.cli.worker.settings import WORKER_SETTINGS
from tests.needs import need

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
NAMES = ("riverui.service", "riverui-worker@.service")
_EXPOSURE = 20
"""Tenths that systemd's own judgement of how exposed a unit is may reach; an open one has 96."""


def lines(name: str) -> dict[str, str]:
    """Return the lines of a file by their words; of words that stand twice, the last one's."""
    return dict(re.findall(r"(?m)^(\w+)=(.*)$", (UNITS / name).read_text()))


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return a folder with the units, whose program is one that this machine has."""
    for name in NAMES:
        text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", (UNITS / name).read_text())
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_nothing(name: str, units: Path) -> None:
    analyze = [need("systemd"), "--no-pager"]
    done = subprocess.run(
        [*analyze, "verify", "--man=no", "--recursive-errors=no", f"./{name}"],
        cwd=units, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        [*analyze, "security", "--offline=true", f"--threshold={_EXPOSURE}", f"./{name}"],
        cwd=units, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_unit_with_a_mistake_is_found(units: Path) -> None:
    """So that the test above can fail."""
    unit = units / "riverui.service"
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSistem=strict"))
    done = subprocess.run(
        [need("systemd"), "verify", "--man=no", "--recursive-errors=no", "./riverui.service"],
        cwd=units, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "ProtectSistem" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_commands_are_riveruis(name: str) -> None:
    program, command, *_ = shlex.split(lines(name)["ExecStart"])
    assert Path(program).name == "riverui"
    assert command in riverui.commands


def test_settings_are_riveruis_and_variables_are_set() -> None:
    dashboard = lines("riverui.env")
    names = {name for setting in SETTINGS for name in setting.env_names}
    assert set(dashboard) <= names
    worker = lines("worker-jobs.env")
    names = {name for setting in WORKER_SETTINGS for name in setting.env_names}
    # The client's own, and the one that the unit puts into its command.
    assert set(worker) - {"DATABASE_URL", "RIVERUI_CLIENT"} <= names
    used = set(re.findall(r"\$\{(\w+)\}", lines("riverui-worker@.service")["ExecStart"]))
    assert used == {"RIVERUI_CLIENT"}


def test_workers_have_the_time_that_their_stop_takes() -> None:
    spans = {setting.env: str(setting.default) for setting in WORKER_SETTINGS}
    both = sum(int(spans[f"RIVERUI_{phase}_STOP"].removesuffix("s")) for phase in ("SOFT", "HARD"))
    assert int(lines("riverui-worker@.service")["TimeoutStopSec"]) > both
