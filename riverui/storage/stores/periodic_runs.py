"""Reads periodic jobs from the rows of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from riverui.domain.jobs import MAX_NAME
from riverui.domain.periodic import PeriodicHistories, PeriodicHistory, PeriodicRun
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.browse.rows import known_state
from riverui.storage.store import Store

_TRY = 500
"""Milliseconds for River's GIN index, and for metadata that is long."""
_WINDOW = 20_000
"""Newest jobs of the table to read if there are too many periodic ones."""


class PeriodicRunStore(Store):
    """Reading periodic jobs."""

    async def periodic_history_list(
        self, *, most: int = 20_000, names: int = 200, runs: int = 40
    ) -> PeriodicHistories | None:
        """Return periodic jobs by name, those without a name by kind, at most `names`, each with
        its newest `runs`; None if they cannot be read in time.

        If these are more than `most` jobs, only those among the newest jobs of the table count.
        """
        values = {"most": most, "name_length": MAX_NAME, "names": names, "runs": runs}
        rows = await self._seen(values)
        complete = rows is not None and (rows[0].looked_at if rows else 0) < most
        if not complete:
            rows = await self._seen(values, jobs=Fragment("periodic_newest", {"window": _WINDOW}))
        if rows is None:
            return None
        return PeriodicHistories(histories=list(_histories(rows)), complete=complete)

    async def _seen(self, values: Mapping[str, Any], **slots: Fragment) -> Sequence[Any] | None:
        async with self._sql.trying_bitmaps(milliseconds=_TRY):
            return (await self._sql.rows("periodic_history_list", values, **slots)).records()
        return None


def _histories(rows: Sequence[Any]) -> Iterator[PeriodicHistory]:
    for _, group in groupby(rows, key=lambda row: (row.name, "" if row.name else row.kind)):
        found = list(group)
        runs = [run for row in found if (run := _run(row)) is not None]
        if runs:
            yield PeriodicHistory(
                id=found[0].name,
                kind=found[0].kind,
                queue=found[0].queue,
                runs=runs,
                jobs=found[0].jobs,
            )


def _run(row: Any) -> PeriodicRun | None:
    state = known_state(row.state)
    if state is None:
        return None
    return PeriodicRun(
        id=row.id,
        state=state,
        scheduled_at=row.scheduled_at,
        attempted_at=row.attempted_at,
        finalized_at=row.finalized_at,
        attempt=row.attempt,
    )
