"""Which tests run: the ones that prove a change, or the long ones.

Without a path all runs that is not long (`make test`). A path runs all that it names. With
`RIVERUI_FULL=1` the long tests alone run, in their full measure (`make test-long`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.scale import FULL

_LONG = (
    "bench",
    "cli/test_completion.py",
    "cli/test_top.py",
    "contrib/django/test_migrations.py",
    "databases/test_read_replica.py",
    "databases/test_servers.py",
    "databases/test_signing_in.py",
    "databases/test_versions.py",
    "demo",
    "deploy",
    "docs/test_database.py",
    "docs/test_django.py",
    "docs/test_embedding.py",
    "docs/test_guide.py",
    "docs/test_recipes.py",
    "docs/test_running.py",
    "docs/test_site.py",
    "docs/test_site_in_a_browser.py",
    "docs/test_tutorials.py",
    "engine/maintenance/test_odd_rows.py",
    "engine/processes/test_ending.py",
    "engine/test_odd_rows.py",
    "examples",
    "faults",
    "replicas",
    "storage/sqlite/test_histories.py",
    "test_bench.py",
    "test_container.py",
    "test_open_files.py",
    "test_package.py",
    "test_proxies.py",
    "test_together.py",
    "test_typing.py",
    "web/api/test_schemathesis.py",
    "web/test_odd_rows.py",
    "worker/test_processes.py",
    "worker/test_reload.py",
    "worker/test_replacement.py",
)
"""Folders and files below tests/ that are long as a whole; single tests have the mark `long`."""
_MOSTLY_LONG = ("browser", "conformance", "interop")
"""Folders that are long but for the tests with the mark `short`, which guard what people do."""
_TESTS = Path(__file__).parent


def _within(path: Path, names: Sequence[str]) -> bool:
    return any(path.is_relative_to(_TESTS / name) for name in names)


def _named(config: pytest.Config) -> bool:
    """Return whether whoever runs the tests has named paths."""
    # A process of pytest-xdist gets all paths as if they were named.
    given: dict[str, bool] = getattr(config, "workerinput", {})
    return given.get("named", config.args_source == pytest.Config.ArgsSource.ARGS)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass on to each of pytest-xdist's processes whether paths were named."""
    node.workerinput["named"] = _named(node.config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out long files before they are imported."""
    if _named(config) or FULL:
        return None
    return True if _within(collection_path, _LONG) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out single tests."""
    if _named(config) and not FULL:
        return
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        long = "long" in marks or _within(item.path, _LONG)
        long = long or ("short" not in marks and _within(item.path, _MOSTLY_LONG))
        (chosen if (long or "scaled" in marks if FULL else not long) else others).append(item)
    items[:] = chosen
    if others:
        config.hook.pytest_deselected(items=others)
