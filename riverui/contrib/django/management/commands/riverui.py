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
"""The project's client for `riverui worker`."""

_BAD_SETTINGS = 2
"""Exit code of riverui's command line for settings that are not valid."""
_DJANGO = ("--settings", "--pythonpath")
"""Flags with a value of every `manage.py` command, which Django has read already."""


class Command(BaseCommand):  # type: ignore[misc]  # Django comes without types
    """Passes the arguments after `riverui` to riverui's command line."""

    help = "River's jobs: migrate-list, explain, health, worker and the others of riverui."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command, and end the process with its exit code."""
        run(f"{argv[0]} {argv[1]}", self.words(without_django(argv[2:])))

    def add_arguments(self, parser: Any) -> None:
        """Accept any arguments, for `call_command`."""
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *args: object, words: list[str], **options: object) -> None:
        """Run the command for `call_command`."""
        run("riverui", self.words(words))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """Print the help, for `manage.py help riverui`."""
        run(f"{prog_name} {subcommand}", self.words(["--help"]))

    def words(self, given: list[str]) -> list[str]:
        """Return the arguments for riverui's command line; without any, those for help."""
        return given or ["--help"]


def run(called: str, words: list[str]) -> None:
    """Run riverui's command line on the project's database; the process ends with its exit code."""
    try:
        found = river_settings()
    except ConfigError as error:
        # In one line, as riverui prints its errors.
        OutputWrapper(sys.stderr).write(f"riverui: {error}")
        sys.exit(_BAD_SETTINGS)
    # Imported by its path, as contrib may not import the command line.
    main = import_string("riverui.cli.main.main")
    settings = {"DATABASE_URL": found.url, "RIVER_SCHEMA": found.schema or ""}
    main(words, settings=settings, program=called, target=TARGET, migrate="manage.py migrate")


def without_django(words: list[str]) -> list[str]:
    """Return the arguments without those of every `manage.py` command."""
    kept: list[str] = []
    passing = iter(words)
    for word in passing:
        if word in _DJANGO:
            next(passing, None)
        elif not word.startswith(tuple(f"{flag}=" for flag in _DJANGO)):
            kept.append(word)
    return kept
