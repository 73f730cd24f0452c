"""What tests need of the machine besides Python. What is missing is got when the first test asks
for it; what cannot be got has its tests skipped, and the last lines say which.

With `CI=true` a skipped test has failed, as nobody would notice it otherwise.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache, partial
from pathlib import Path

import pytest

# Read before any test, as some run without settings of whoever runs them.
_SKIPPING_FAILS = os.environ.get("CI", "").lower() in ("1", "true", "yes")

_PROVIDE = Path(__file__).parents[1] / ".ci" / "provide"
_PROVIDE_SECONDS = 600
"""For which getting one tool may take: helm is built from its sources."""


def need(tool: str) -> str:
    """Return the path of a program that the machine must have, and get it where that is possible;
    skip the test where it is not.
    """
    path = _FINDERS[tool]() or _provided(tool)
    if path is None:
        pytest.skip(f"needs {tool}")
    return path


@cache
def _provided(tool: str) -> str | None:
    """Have `.ci/provide` get a tool, and return its path."""
    with (Path(tempfile.gettempdir()) / f"riverui-provide-{os.getuid()}").open("w") as lock:
        # One process at a time installs; the others find what it has got.
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = _FINDERS[tool]()
        if path is None:
            subprocess.run(
                ["sh", _PROVIDE, tool],
                check=False,
                stdout=subprocess.DEVNULL,
                timeout=_PROVIDE_SECONDS,
                env={**os.environ, "VIRTUAL_ENV": sys.prefix},
            )
            path = _FINDERS[tool]()
    return path


@cache
def _chromium() -> str | None:
    """Debian's, or the one that Playwright brought. Playwright drives either, and must be able to
    run.
    """
    from playwright.sync_api import sync_playwright

    try:
        with sync_playwright() as playwright:
            own = playwright.chromium.executable_path
    except Exception:
        # Its driver wants libraries that a bare machine may lack; it says so on stderr.
        return None
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    return found or (own if Path(own).is_file() else None)


@cache
def _go() -> str | None:
    """Return a Go that can fetch the version that River asks for: 1.21 was the first."""
    found = shutil.which("go")
    if found is None:
        return None
    told = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"go(\d+)\.(\d+)", told)
    return found if version and (int(version[1]), int(version[2])) >= (1, 21) else None


def _pgbouncer() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")


def _postgres(major: int) -> str | None:
    """Return the folder of one major version's programs: of `.ci/postgres`, or Debian's."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riverui-postgres"
    places = [*cache.glob(f"{major}.*/bin"), Path(f"/usr/lib/postgresql/{major}/bin")]
    return next((str(place) for place in places if (place / "postgres").is_file()), None)


def _caddy() -> str | None:
    return shutil.which("caddy")


@cache
def _cargo() -> str | None:
    """Return a cargo of Rust 1.95 or later, which River's client for Rust asks for."""
    found = shutil.which("cargo")
    if found is None:
        return None
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"cargo (\d+)\.(\d+)", told)
    return found if version and (int(version[1]), int(version[2])) >= (1, 95) else None


def _helm() -> str | None:
    return shutil.which("helm")


def _htpasswd() -> str | None:
    return shutil.which("htpasswd")


def _nginx() -> str | None:
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def _prometheus() -> str | None:
    """Its `promtool`, beside which the server itself is."""
    return shutil.which("promtool") if shutil.which("prometheus") else None


def _systemd() -> str | None:
    return shutil.which("systemd-analyze")


_FINDERS: dict[str, Callable[[], str | None]] = {
    "Caddy": _caddy,
    "Chromium": _chromium,
    "Go": _go,
    "PgBouncer": _pgbouncer,
    **{f"Postgres {major}": partial(_postgres, major) for major in (13, 14, 15, 16, 17)},
    "cargo": _cargo,
    "helm": _helm,
    "htpasswd": _htpasswd,
    "nginx": _nginx,
    "Prometheus": _prometheus,
    "systemd": _systemd,
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip in a test or its fixtures into a failure, where that is asked for."""
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole file into a failure, where that is asked for."""
    report = yield
    _refuse(report)
    return report


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _SKIPPING_FAILS and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where no test may be: {_reason(report)}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    found = report.longrepr
    return (found[2] if isinstance(found, tuple) else str(found)).removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write what was skipped, and how many tests for each reason."""
    skipped = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    if not skipped:
        return
    terminalreporter.section("not run on this machine")
    for reason, number in skipped.most_common():
        tests = "1 test" if number == 1 else f"{number} tests"
        terminalreporter.write_line(f"{tests}: {reason}")
