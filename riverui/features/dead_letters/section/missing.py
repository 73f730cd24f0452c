"""The error for a database without the table of dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from riverui.errors import NotSupported, RiveruiError
from riverui.features.dead_letters.verbs import needing_table


@contextmanager
def missing_table_as(error: type[RiveruiError]) -> Iterator[None]:
    """Raise this error, with a message that names the missing migration, if the table of dead
    letters does not exist.
    """
    try:
        with needing_table():
            yield
    except NotSupported as missing:
        raise error(str(missing)) from None
