"""`riverui completion`, in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Ways
from tests.test_cli import Run, run

__all__ = ["run"]

BASH = """
eval "$SCRIPT"
complete -p riverui >/dev/null || exit 3
COMP_WORDS=(riverui "$@")
COMP_CWORD=$#
compopt() { :; }
_riverui_completion riverui
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does when the tab key is pressed behind these words."""


@cache
def script() -> str:
    """Return what a person's bash sources at its start."""
    return subprocess.check_output(
        [sys.executable, "-m", "riverui", "completion", "bash"], text=True, timeout=30
    )


def completed(*words: str, **environ: str) -> list[str]:
    """Return what bash offers for the last word."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        env={"PATH": path, "SCRIPT": script(), **environ},
    )
    assert done.stderr == ""
    return done.stdout.split()


def named(*words: str, **environ: str) -> list[str]:
    """Return what bash offers where the key is pressed again as long as that is nothing: a machine
    may be too busy to read names in time.
    """
    return next(filter(None, (completed(*words, **environ) for _ in range(5))), [])


def test_commands_and_flags() -> None:
    assert completed("jo") == ["job"]
    assert set(completed("")) >= {"job", "queue", "serve", "worker"}
    assert completed("job", "l") == ["list", "logs"]
    assert completed("queue", "p") == ["pause"]
    assert completed("job", "list", "--sta") == ["--state"]
    # Without a command these are those of `serve`.
    assert completed("--read-o") == ["--read-only"]
    assert completed("--vers") == ["--version"]
    assert completed("job", "list", "--state", "re") == ["retryable"]


@pytest.mark.parametrize("name", ["database", "api"])
def test_names_of_the_database(ways: Ways, shop: str, name: str) -> None:
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute(
            "insert into river_queue (name, created_at, updated_at) values"
            " ('mail $(touch x)', now(), now()), ('ma;ls', now(), now()), ('mamba', now(), now())"
        )
        connection.execute("insert into river_job (kind, args) values ('charge`id`', '{}')")
    way = dict(getattr(ways, name))
    # Nothing that a shell would run is put on its line.
    assert named("queue", "pause", "ma", **way) == ["mail", "mamba"]
    assert named("job", "list", "--kind", "cha", **way) == ["charge"]
    assert named("job", "insert", "mail", **way) == ["mail_send"]


def test_a_flag_before_it_names_the_database(shop: str) -> None:
    assert named("queue", "get", "--database-url", shop, "sl") == ["slow"]


def test_without_a_database_there_are_no_names() -> None:
    assert completed("queue", "pause", "ma") == []
    nowhere = "postgres://nobody@127.0.0.1:1/none"
    assert completed("queue", "pause", "ma", DATABASE_URL=nowhere) == []
    assert completed("queue", "pause", "ma", RIVERUI_API_URL="http://127.0.0.1:1") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_own(run: Run, shell: str) -> None:
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert f"_RIVERUI_COMPLETE={shell}_complete" in out


def test_no_other_shell_is_known(run: Run) -> None:
    assert run("completion", "tcsh")[0] == 2


def test_zsh_gets_its_compinit_first(run: Run) -> None:
    code, out, _ = run("completion", "zsh")
    assert code == 0
    first, rest = out.split("\n", 1)
    assert "functions[compdef]" in first
    assert first.endswith("|| { autoload -Uz compinit && compinit; }")
    assert "compdef _riverui_completion riverui" in rest
