"""What a page tells besides: each fact is read by itself, and the page does without what cannot
be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver, Executor

_Fact = TypeVar("_Fact")


async def fact(
    driver: Driver, read: Callable[[Executor], Awaitable[_Fact]]
) -> _Fact | DatabaseError:
    """Return what `read` gives in a transaction of its own, or the error that kept it from being
    read.

    A standby lacks unlogged tables and a user may lack privileges: that must not take the rest of a
    page along, and a statement that fails would spoil the others of its transaction.
    """
    try:
        async with driver.reading() as executor:
            return await read(executor)
    except DatabaseError as error:
        return error
