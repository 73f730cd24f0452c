"""Reads where the first available jobs of a queue are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from riverui.storage.interface.engine_params import JobFetchParams, Place
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.engine.job_fetch import of_kinds, which
from riverui.storage.store import Store

_AFTER = Fragment("first_place_after")


class FirstPlaces(NamedTuple):
    """Where the first available jobs of a queue are."""

    places: Sequence[Place | None]
    """The place just before the first job of each priority, from 1 to 4; None without a job."""
    at: datetime
    """When, by the database's clock."""
    entries: int
    """Index entries that had to be read."""


class FirstPlaceStore(Store):
    """Operations on the places of jobs that may be fetched."""

    async def job_first_place_list(self, params: JobFetchParams) -> FirstPlaces:
        """Return the place of the first available job of each priority of a queue, if given after
        some places.
        """
        rows = await self._sql.prepared(
            "job_first_place_list",
            {"schema": self._sql.schema, **which(params)},
            **of_kinds(params),
            **({} if params.after is None else {"after": _AFTER}),
        )
        row = rows.first()
        places = [
            None if job_id is None else Place(at, job_id - 1)
            for at, job_id in zip(row.scheduled_at, row.ids, strict=True)
        ]
        return FirstPlaces(places, row.at, row.entries)
