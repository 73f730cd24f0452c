"""`riverui partition-index`: makes and drops the index of a partition."""

from __future__ import annotations

import psycopg
import pytest

from riverui.domain.partitions import Partition
from tests.test_cli import Run, run

__all__ = ["run"]

NAME = Partition(by_args=("tenant",), by_kind=True).index_name


def _there(database_url: str) -> bool:
    with psycopg.connect(database_url) as connection:
        return connection.execute("select 1 from pg_class where relname = %s", [NAME]).rowcount > 0


def test_it_is_made_and_dropped_once(run: Run, database_url: str) -> None:
    url = {"DATABASE_URL": database_url}
    given = ["partition-index", "--by-args", "tenant", "--by-kind"]
    told = f"{NAME}, jobs by kind and tenant.\n"
    assert run(*given, **url) == (0, f"Created {told}", "")
    assert _there(database_url)
    assert run(*given, **url) == (0, f"Nothing to do: there is {told}", "")
    assert run(*given, "--drop", **url) == (0, f"Dropped {told}", "")
    assert not _there(database_url)
    assert run(*given, "--drop", **url) == (0, f"Nothing to do: there is no {told}", "")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "Give the partition"),
        (["--by-args", ""], "'' is not a name of an arg"),
        (["--by-args", "a", "--by-all-args"], "exclude each other"),
    ],
)
def test_what_is_no_partition(run: Run, database_url: str, argv: list[str], words: str) -> None:
    code, out, err = run("partition-index", *argv, DATABASE_URL=database_url)
    assert (code, out) == (2, "")
    assert words in err
