"""A pytest plugin: with RIVERUI_NO_SKIPS=1 a skipped test has failed, as nobody would notice it otherwise."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

# Read before any test, as the tests run without settings of whoever runs them.
_FORBIDDEN = os.environ.get("RIVERUI_NO_SKIPS") == "1"


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _FORBIDDEN and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, where no test may be: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip in a test or its fixtures into a failure."""
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns the skip of a whole file into a failure."""
    report = yield
    _refuse(report)
    return report
