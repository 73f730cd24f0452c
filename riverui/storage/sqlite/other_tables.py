"""Reads single jobs from other tables with the columns of `river_job`."""

from __future__ import annotations

from riverui.domain.jobs import JobRow, JobShowRow, JobState, JobTextRow
from riverui.storage.interface.params import TextPiece
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.sqlite import job_texts
from riverui.storage.sqlite.job_rows import COLUMNS, job_row
from riverui.storage.sqlite.sql import SqliteSql
from riverui.storage.sqlite.statements import Statements, id_list, reads


class OtherTables(Statements):
    """Operations on tables that blocks name."""

    @property
    def sql(self) -> SqliteSql:
        """Return the statements of those stores that SQLite has."""
        return SqliteSql(self._scope)

    @reads
    def job_show(
        self, id: int, *, cut: int, lean: bool, unknown: JobState, table: Fragment
    ) -> JobShowRow | None:
        """Return one job of a table as its page shows it; None without it."""
        row = self._row_of(table, id)
        return None if row is None else job_texts.show_row(row, cut=cut, lean=lean)

    @reads
    def job_text(self, id: int, *, unknown: JobState, table: Fragment) -> JobTextRow | None:
        """Return one job of a table with its JSON as text; None without it."""
        row = self._row_of(table, id)
        return None if row is None else job_texts.text_row(row, args=job_texts.MAX_ARGS, whole=True)

    async def job_piece(self, text: Fragment, start: int, size: int) -> TextPiece | None:
        """Return `size` bytes of a text from byte `start`; None without it."""
        row = await self.sql.row("job_text_piece", {"start": start, "size": size}, text=text)
        return None if row is None else TextPiece(**row._asdict())

    def _row_of(self, table: Fragment, id: int) -> JobRow | None:
        name, _ = self.sql.render(table)
        rows = self._rows(
            f"select {COLUMNS} from {name} where id in (select value from json_each(?))",
            [id_list([id])],
        )
        return next(map(job_row, rows), None)
