"""The drivers that the program makes, as what they are here: Postgres's, with all that it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from riverui.storage import connect as program
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.sync_driver import PostgresSyncDriver

P = ParamSpec("P")
D = TypeVar("D")


def _making(kind: type[D], make: Callable[P, object]) -> Callable[P, D]:
    @wraps(make)
    def made(*args: P.args, **options: P.kwargs) -> D:
        driver = make(*args, **options)
        assert isinstance(driver, kind)
        return driver

    return made


connect = _making(PostgresDriver, program.connect)
connect_sync = _making(PostgresSyncDriver, program.connect_sync)
