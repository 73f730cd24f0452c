"""The optional parts of a driver, and how to ask for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from riverui.errors import NotSupported

Offer_co = TypeVar("Offer_co", covariant=True)


class Offering(Protocol):
    """A driver, or one of its executors: both list capabilities alike."""

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """The members of riverui.storage.interface.CAPABILITIES that it offers."""
        ...


@dataclass(frozen=True, slots=True)
class Capability(Generic[Offer_co]):
    """An optional part of the interface: its Protocol, and the message for when it is missing.

    `if REINDEXING in driver.capabilities` checks for it, `REINDEXING.on(executor)` returns the
    executor with the Protocol's methods.
    """

    name: str
    missing: str = field(compare=False)
    """One or two sentences for the log, the About page and the error: what does not work."""

    def __str__(self) -> str:
        return self.name

    def on(self, offering: Offering) -> Offer_co:
        """Return the driver or executor itself, typed as one that offers this; NotSupported if
        it does not.
        """
        if self not in offering.capabilities:
            raise NotSupported(self.missing)
        return cast("Offer_co", offering)


SQL: Capability[object] = Capability(
    "sql",
    "This needs Postgres.",
)
"""Whether `Executor.sql` has the statements of every store; without it see `Store.supported`."""
