"""Reads the sizes of jobs, and what the server measured of River's statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riverui.features.costs.domain import JobSizes, StatementMeans
from riverui.storage.store import Store


class CostStore(Store):
    """Reads what jobs cost the database. Each statement reads a bounded number of jobs."""

    async def job_size_list(self, kinds: Sequence[str], *, jobs: int) -> Mapping[str, JobSizes]:
        """Return mean sizes by kind, of at most so many jobs of each; kinds without any are
        missing.
        """
        rows = await self._sql.rows("job_size_list", {"kinds": list(kinds), "jobs": jobs})
        return {
            row.kind: JobSizes(
                args=row.args_bytes,
                row=row.row_bytes,
                added=row.added_bytes,
                toasted=row.toasted_bytes,
                names=row.name_bytes,
                entries=row.entry_bytes,
            )
            for row in rows.records()
        }

    async def statement_mean_get(self) -> StatementMeans | None:
        """Return what pg_stat_statements measured; None if it is not installed, or has no inserts
        or no changes of jobs.
        """
        if not (await self._sql.row("statement_stats_there")).there:
            return None
        row = await self._sql.row("statement_mean_get")
        if row.classes < 2 or row.wal is None or row.seconds is None:
            return None
        return StatementMeans(wal=row.wal, seconds=row.seconds)
