"""A server raises its own limit of open files, and says so where that is not enough."""

from __future__ import annotations

import subprocess
import sys

import pytest

_ASK = """
import logging, resource
from riverui.cli.serve.server import connections_possible
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(connections_possible({wanted}), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "found", "told"),
    [
        (256, 1_000, 500, "500 660 1000", ""),
        (900, 1_000, 500, "500 900 1000", ""),
        (
            256,
            1_000,
            5_000,
            "840 1000 1000",
            "connections at once are limited to 840, not 5000: the limit of open files is 1000",
        ),
        (
            100,
            100,
            5_000,
            "1 100 100",
            "connections at once are limited to 1, not 5000: the limit of open files is 100",
        ),
    ],
)
def test_the_limit_is_raised(soft: int, hard: int, wanted: int, found: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASK.format(soft=soft, hard=hard, wanted=wanted)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == found
    assert done.stderr.strip() == told
