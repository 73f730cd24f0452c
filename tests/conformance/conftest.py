"""Both sides, started once for the scenarios of a process of tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.conformance.files import FilePair, FileSide, opened
from tests.conformance.sides import CANDIDATE, Listening, Pair, Side
from tests.conftest import create_database, drop_database, with_database
from tests.interop.worker import built


def _ours(url: str, **environment: str) -> Side:
    command = [sys.executable, *CANDIDATE["command"][3:]]
    return Side("python", url, command, **environment)


@pytest.fixture(scope="session")
def kept_pair(admin_url: str, template_database: str) -> Iterator[Pair]:
    """Yield both sides on a database of their own."""
    program = str(built("worker"))
    name = create_database(admin_url, template=template_database)
    url = with_database(admin_url, name)
    go = Side("go", url, [program, "-conformance", "-database-url={url}"])
    ours = _ours(url)
    with psycopg.connect(url, autocommit=True) as database:
        yield Pair(go=go, ours=ours, database=database, url=url)
    for side in (go, ours):
        side.close()
    drop_database(admin_url, name)


@pytest.fixture
def pair(kept_pair: Pair) -> Iterator[Pair]:
    """Yield both sides, idle, on empty tables."""
    kept_pair.reset()
    yield kept_pair
    while kept_pair.extra:
        kept_pair.extra.pop().close()
    for side in kept_pair:
        side.recover()


@pytest.fixture(scope="session")
def kept_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilePair]:
    """Yield both sides on a SQLite file."""
    program = str(built("worker"))
    url = f"sqlite:///{tmp_path_factory.mktemp('conformance') / 'river.db'}"
    go = FileSide("go", url, [program, "-conformance", "-database-url={url}"])
    ours = FileSide("python", url, [sys.executable, *CANDIDATE["command"][3:]])
    ours.call("migrate")
    database = opened(url)
    yield FilePair(go=go, ours=ours, database=database, url=url)
    for side in (go, ours):
        side.close()
    database.raw.close()


@pytest.fixture
def files(kept_files: FilePair) -> Iterator[FilePair]:
    """Yield both sides on a file, idle, with empty tables."""
    kept_files.reset()
    yield kept_files
    while kept_files.extra:
        kept_files.extra.pop().close()
    for side in kept_files:
        side.recover()


@pytest.fixture
def inserter(pair: Pair) -> Iterator[Side]:
    """Yield our side with the profile of a client that only inserts."""
    side = _ours(pair.url, RIVER_CONFORMANCE_PROFILE="insert-only-v1")
    yield side
    side.close()


@pytest.fixture
def listen(pair: Pair) -> Iterator[Callable[..., Listening]]:
    """Return what listens on channels until the end of the scenario."""
    opened: list[Listening] = []

    def begin(*topics: str) -> Listening:
        opened.append(Listening(pair.url, *topics))
        return opened[-1]

    yield begin
    for listening in opened:
        listening.close()
