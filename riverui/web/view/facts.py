"""Read optional parts of a page one by one; the page is shown without those that fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver, Executor

_Fact = TypeVar("_Fact")


async def fact(
    driver: Driver, read: Callable[[Executor], Awaitable[_Fact]]
) -> _Fact | DatabaseError:
    """Return the result of `read` in its own transaction, or the database error that it raised.

    A standby lacks unlogged tables, and a user may lack privileges: the rest of the page must still
    be shown, and a failed statement would abort a shared transaction.
    """
    try:
        async with driver.reading() as executor:
            return await read(executor)
    except DatabaseError as error:
        return error
