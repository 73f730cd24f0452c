"""`manage.py riverui_worker`: works the jobs of the project."""

from __future__ import annotations

from riverui.contrib.django.management.commands import riverui


class Command(riverui.Command):
    """Runs `manage.py riverui worker`."""

    help = "Works the project's jobs; takes the flags of riverui worker."

    def words(self, given: list[str]) -> list[str]:
        """Return the arguments for riverui's command line."""
        return ["worker", *given]
