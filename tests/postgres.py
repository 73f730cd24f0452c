"""One Postgres for a whole run of the tests, however many processes share the work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_SERVER = pytest.StashKey[str]()
_STACK = pytest.StashKey[ExitStack]()


@contextmanager
def _server() -> Iterator[str]:
    """Yield a server on which databases may be made: `DATABASE_URL`, or an embedded one for this
    run.

    `RIVERUI_PG_BIN` is the folder of the Postgres programs to use for that.
    """
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    from riverui.demo.postgres import EmbeddedPostgres

    binaries = os.environ.get("RIVERUI_PG_BIN")
    memory = Path("/dev/shm")
    # A thousand databases come and go: in memory where there is such a place.
    with TemporaryDirectory(
        prefix="riverui-", dir=memory if os.access(memory, os.W_OK) else None
    ) as folder:
        # Where root may not make user namespaces, as in most containers, the server runs as nobody.
        Path(folder).chmod(0o711)
        with EmbeddedPostgres(
            Path(folder) / "data", durable=False, binaries=Path(binaries) if binaries else None
        ) as server:
            yield server.url


def _started(config: pytest.Config) -> str:
    """Start the server when it is first asked for; its address."""
    if _SERVER not in config.stash:
        config.stash[_STACK] = ExitStack()
        config.stash[_SERVER] = config.stash[_STACK].enter_context(_server())
    return config.stash[_SERVER]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each of pytest-xdist's processes where the server is, which outlives them all."""
    node.workerinput["admin_url"] = _started(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server behind the last test."""
    if _STACK in config.stash:
        config.stash[_STACK].close()


@pytest.fixture(scope="session")
def admin_url(pytestconfig: pytest.Config) -> str:
    """Return the address of a server on which databases may be made."""
    given: dict[str, str] = getattr(pytestconfig, "workerinput", {})
    return given.get("admin_url") or _started(pytestconfig)
