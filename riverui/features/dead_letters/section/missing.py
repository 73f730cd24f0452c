"""What is told where the database keeps no dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from riverui.errors import NotSupported, RiveruiError
from riverui.features.dead_letters.verbs import table_told


@contextmanager
def missing_told(error: type[RiveruiError]) -> Iterator[None]:
    """Raise this error, in the words that say which migration is missing, where the table of dead
    letters is not there.
    """
    try:
        with table_told():
            yield
    except NotSupported as missing:
        raise error(str(missing)) from None
