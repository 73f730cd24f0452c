"""`manage.py riverui …`: the `riverui` command on the database of the project."""

from __future__ import annotations

import sys
from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper
from django.utils.module_loading import import_string

from riverui.contrib.django.config import river_settings
from riverui.errors import ConfigError

TARGET = "riverui.contrib.django.client:command_client"
"""Where `riverui worker` finds the client of the project."""

_BAD_SETTINGS = 2
"""The exit code of riverui's command line for settings that cannot be used."""
_DJANGO = ("--settings", "--pythonpath")
"""Flags of every `manage.py` command that take a value; Django has read them by now."""


class Command(BaseCommand):  # type: ignore[misc]  # Django comes without types
    """Passes all that is behind `riverui` on to the command line of that name."""

    help = "River's jobs: migrate-list, explain, health, worker and the others of riverui."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command, and end the process with its exit code."""
        run(f"{argv[0]} {argv[1]}", self.words(without_django(argv[2:])))

    def add_arguments(self, parser: Any) -> None:
        """Take any words; for `call_command`."""
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *args: object, words: list[str], **options: object) -> None:
        """Run the command for `call_command`."""
        run("riverui", self.words(words))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """Print what there is, for `manage.py help riverui`."""
        run(f"{prog_name} {subcommand}", self.words(["--help"]))

    def words(self, given: list[str]) -> list[str]:
        """Return the words for riverui's command line; on their own they are a call for help."""
        return given or ["--help"]


def run(called: str, words: list[str]) -> None:
    """Run riverui's command line on the project's database; the process ends with its exit code."""
    try:
        found = river_settings()
    except ConfigError as error:
        # In one line, as all that riverui refuses.
        OutputWrapper(sys.stderr).write(f"riverui: {error}")
        sys.exit(_BAD_SETTINGS)
    # By its path, as the command line stands above all that it may run.
    main = import_string("riverui.cli.main.main")
    settings = {"DATABASE_URL": found.conninfo, "RIVER_SCHEMA": found.schema or ""}
    main(words, settings=settings, program=called, target=TARGET, migrate="manage.py migrate")


def without_django(words: list[str]) -> list[str]:
    """Return the words without those that every command of `manage.py` takes."""
    kept: list[str] = []
    passing = iter(words)
    for word in passing:
        if word in _DJANGO:
            next(passing, None)
        elif not word.startswith(tuple(f"{flag}=" for flag in _DJANGO)):
            kept.append(word)
    return kept
