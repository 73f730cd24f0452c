"""Reads for the dashboard and the JSON API: lists, counts, single jobs, queues with their jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from riverui.domain.jobs import (
    FAILED,
    FINALIZED,
    JobListRow,
    JobRow,
    JobShowRow,
    JobState,
    JobTextRow,
    JsonText,
)
from riverui.domain.queues import QueueCountRow, QueueListRow, QueueRow
from riverui.errors import BadRequest
from riverui.storage.interface.params import (
    EVERY,
    Count,
    CountKind,
    JobCursor,
    JobCutoff,
    JobFilter,
    JobJsonPage,
    JobPage,
    JobPageParams,
    JobProgress,
    JobTextPage,
    SearchedWindow,
    TextPiece,
)
from riverui.storage.sqlite import job_texts
from riverui.storage.sqlite.job_filter import (
    Condition,
    all_of,
    before,
    chosen,
    in_states,
    like,
    place_of,
    quoted,
    terms,
)
from riverui.storage.sqlite.job_rows import COLUMNS, STATES, job_row
from riverui.storage.sqlite.queues import Queues
from riverui.storage.sqlite.statements import reads
from riverui.storage.sqlite.values import instant, stamp

_TEXTS = frozenset({"args", "errors", "job", "metadata", "output"})
_EVERY_ARGS = 10_000_000
"""Most characters of one job's args in an answer: as on Postgres."""


_FAILED_AT = "coalesce(attempted_at, scheduled_at) desc, id desc"
_UNFINISHED = quoted(state for state in JobState if state not in FINALIZED)
_DISTINCT = """
    with recursive names(name) as (
        select min({name}) from {source}
        union all
        select (select min({name}) from {source} where {name} > names.name)
        from names where name is not null
    )
    select name from names where name is not null
"""
"""Distinct values of a column with an index, which is not read as a whole."""
_QUEUES = """
    with recursive used(state, name) as (
        select value, (select min(queue) from river_job where state = value)
        from json_each(json_array({states}))
        union all
        select state, (select min(queue) from river_job as next
            where next.state = used.state and next.queue > used.name)
        from used where name is not null
    )
    select name from used where name is not null union select name from river_queue
"""
"""Queues with a row or with jobs in some states."""


class Browse(Queues):
    """Reading operations."""

    @reads
    def job_list(self, params: JobPageParams) -> JobPage:
        """Return one page of jobs; see JobPageParams."""
        rows, more, searched = self._page(params, job_texts.list_columns(params))
        listed = tuple(job_texts.list_row(row, params.paths) for row in rows)
        return JobPage(rows=listed, more=more, searched=searched)

    @reads
    def job_text_list(
        self, params: JobPageParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobTextPage:
        """Return one page of jobs with their args as text."""
        rows, more, searched = self._page(params, COLUMNS)
        texts = [job_texts.text_row(job_row(row), args=args, paths=params.paths) for row in rows]
        return JobTextPage(rows=tuple(texts), more=more, searched=searched)

    async def job_json_list(self, params: JobPageParams, *, args: int) -> JobJsonPage | None:
        """Return None: `job_text_list` is used instead."""
        return None

    async def job_json_get(self, id: int) -> str | None:
        """Return None: `job_text_get` is used instead."""
        return None

    @reads
    def job_count(self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None) -> Count:
        """Count the jobs that match: AT_LEAST from `cap` on."""
        return _count(self._number(chosen(filter, cutoff), cap), cap)

    @reads
    def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """Count all eight states: exact up to `cap`, AT_LEAST beyond."""
        return {state: _count(self._number(in_states([state]), cap), cap) for state in JobState}

    @reads
    def job_count_exact(self, state: JobState) -> Count:
        """Count exactly."""
        return Count(
            value=self._value("select count(*) from river_job where state = ?", [state.value])
        )

    @reads
    def job_cutoff(self) -> JobCutoff:
        """Return the newest id and the time."""
        newest = self._value("select max(id) from river_job")
        return JobCutoff(id=newest or 0, at=self._now())

    @reads
    def job_get(self, id: int, *, cut: int = 200_000, lean: bool = False) -> JobShowRow | None:
        """Return one job, its long texts cut to `cut` characters, or None."""
        row = self._job(id)
        return None if row is None else job_texts.show_row(row, cut=cut, lean=lean)

    @reads
    def job_text_get(self, id: int) -> JobTextRow | None:
        """Return one job with its JSON as text, or None."""
        row = self._job(id)
        return None if row is None else job_texts.text_row(row, args=_EVERY_ARGS, whole=True)

    @reads
    def job_log_piece(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt; None without one."""
        row = self._job(id)
        return None if row is None else _piece(row, job_texts.log_text(row, attempt), start, size)

    @reads
    def job_text_piece(self, id: int, field: str, *, start: int = 0, size: int) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of a field, or of the `job`; None if there
        is none.
        """
        if field not in _TEXTS:
            raise BadRequest(f"A job has no text “{field}”.")
        row = self._job(id)
        return None if row is None else _piece(row, job_texts.field_text(row, field), start, size)

    @reads
    def job_kind_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return distinct kinds by name: those behind `after` that contain `match`, but not
        `exclude`.
        """
        names = _DISTINCT.format(source="river_job", name="kind")
        return self._names(names, match, after, exclude, limit)

    @reads
    def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state."""
        states, found = in_states(filter.states), terms(filter)
        rows = self._rows(
            "select state, count(*), (select count(*) from (select 1 from river_job"
            f" where {states.sql} limit ?)) from (select * from river_job where {states.sql}"
            f" order by id desc limit ?) where {found.sql} group by state",
            [window + 1, window, *found.values],
        )
        counts = {STATES[state]: number for state, number, _ in rows}
        return JobProgress(
            counts={state: counts.get(state, 0) for state in JobState},
            exact=all(examined <= window for *_, examined in rows),
        )

    @reads
    def queue_get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        row = self._queue(name)
        if row is None and not self._rows(
            "select 1 from river_job where queue = ? limit 1", [name]
        ):
            return None
        return self._listed(name, row, cap)

    @reads
    def queue_list(self, *, match: str = "", cap: int, limit: int = 200) -> Sequence[QueueListRow]:
        """Return queues by name: those with a row, and those with unfinished jobs."""
        names = self._names(_QUEUES.format(states=_UNFINISHED), match, "", (), limit)
        return [self._listed(name, self._queue(name), cap) for name in names]

    @reads
    def queue_state_count(
        self, pairs: Sequence[tuple[str, JobState]], *, cap: int
    ) -> Mapping[tuple[str, JobState], int]:
        """Count the jobs of queues in states."""
        return {(name, state): self._in_queue(name, state, cap) for name, state in pairs}

    @reads
    def queue_kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Count the queue's unfinished jobs by kind, among at most `cap` of each state."""
        kinds: dict[str, dict[JobState, Count]] = {}
        for state in JobState:
            if state in FINALIZED:
                continue
            rows = self._rows(
                "select kind, count(*) from (select kind from river_job where state = ?"
                " and queue = ? limit ?) group by kind",
                [state.value, name, cap + 1],
            )
            examined = sum(number for _, number in rows)
            for kind, number in rows:
                count_kind = CountKind.AT_LEAST if examined > cap else CountKind.EXACT
                count = Count(value=min(number, cap), kind=count_kind)
                kinds.setdefault(kind, {})[state] = count
        return sorted(kinds.items())

    @reads
    def queue_failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """Return the queue's discarded and retryable jobs, newest attempt first."""
        failed = self._rows(
            f"select {job_texts.LIST_COLUMNS} from river_job where id in (select id from river_job"
            f" where queue = ? and {in_states(FAILED).sql} order by {_FAILED_AT} limit ?)"
            f" order by {_FAILED_AT}",
            [name, limit],
        )
        return [job_texts.list_row(row) for row in failed]

    @reads
    def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return names of queues that contain `match`: those with a row and those with jobs."""
        return self._names(_QUEUES.format(states=quoted(JobState)), match, "", (), limit)

    @reads
    def queue_row_name_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return names of queues that have a row, chosen as those of `job_kind_list`."""
        return self._names("select name from river_queue", match, after, exclude, limit)

    @reads
    def queue_count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """Return queue rows by name with their counts, exact up to `cap`."""
        rows = self._queues("order by name limit ?", [limit])
        return [self._counted(row, cap) for row in rows]

    @reads
    def queue_count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """Return one queue's row with its counts; None without a row."""
        row = self._queue(name)
        return None if row is None else self._counted(row, cap)

    def _page(
        self, params: JobPageParams, columns: str
    ) -> tuple[Sequence[Any], bool, SearchedWindow | None]:
        """Return the rows of a page in the order of display, whether more follow, and where the
        search has ended, if the window did before the page was full.
        """
        order, cursor, wanted = params.order, params.cursor, params.filter
        place = place_of(order, wanted.states)
        backwards = cursor is not None and cursor.before
        way = "desc" if order.descending is not backwards else "asc"
        conditions = [in_states(wanted.states), before(params.cutoff)]
        if cursor is not None:
            at = cursor.id if cursor.at is None or order.by_id else stamp(cursor.at)
            compared = f"({place}, id) {'<' if way == 'desc' else '>'} (?, ?)"
            conditions.append(Condition(compared, [at, cursor.id]))
        where, found = all_of(conditions), terms(wanted)
        by = f"order by {place} {way}, id {way}"
        examined = f"from river_job where {where.sql} {by}"
        if wanted.terms:
            source = f"from (select * {examined} limit ?) where {found.sql} {by}"
            values = [*where.values, min(params.window, EVERY), *found.values]
        else:
            source, values = examined, list(where.values)
        # Only the ids, as SQLite makes every column of what it sorts.
        rows = self._rows(
            f"select {columns} from river_job where id in (select id {source} limit ?) {by}",
            [*values, params.limit + 1],
        )
        more = len(rows) > params.limit
        rows = rows[: params.limit]
        searched = None
        if wanted.terms and not more and params.window < EVERY:
            searched = self._searched(
                params, f"select id, {place}, +created_at {examined}", where.values
            )
        return (rows[::-1] if backwards else rows), more, searched

    def _searched(
        self, params: JobPageParams, examined: str, values: Sequence[Any]
    ) -> SearchedWindow | None:
        """Return where the window ended; None if it has seen every row."""
        last = self._rows(f"{examined} limit 2 offset ?", [*values, params.window - 1])
        if len(last) < 2:
            return None
        job_id, place, created_at = last[0]
        by_id = params.order.by_id
        backwards = params.cursor is not None and params.cursor.before
        return SearchedWindow(
            rows=params.window,
            until=instant(created_at if by_id else place),
            resume=JobCursor(at=None if by_id else instant(place), id=job_id, before=backwards),
        )

    def _number(self, where: Condition, cap: int) -> int:
        """Count the jobs that fulfil a condition, up to one more than `cap`."""
        found: int = self._value(
            f"select count(*) from (select 1 from river_job where {where.sql} limit ?)",
            [*where.values, cap + 1],
        )
        return found

    def _in_queue(self, name: str, state: JobState, cap: int) -> int:
        """Count the jobs of a queue in a state, up to `cap`."""
        where = Condition("state = ? and queue = ?", [state.value, name])
        return min(self._number(where, cap), cap)

    def _names(
        self, source: str, match: str, after: str, exclude: Sequence[str], limit: int
    ) -> list[str]:
        """Return the names that a statement selects, which contain `match`, in order."""
        return self._value_list(
            f"select name from ({source}) where name > ? and name like ? escape '!'"
            " and name not in (select value from json_each(?)) order by name limit ?",
            [after, f"%{like(match.replace('*', ''))}%", json.dumps(exclude), limit],
        )

    def _listed(self, name: str, row: QueueRow | None, cap: int) -> QueueListRow:
        unserved = QueueRow(
            name=name,
            created_at=None,
            metadata=JsonText(text="{}", size=2),
            paused_at=None,
            updated_at=None,
        )
        return QueueListRow(
            queue=row or unserved,
            available=self._in_queue(name, JobState.AVAILABLE, cap),
            running=self._in_queue(name, JobState.RUNNING, cap),
            scheduled=self._in_queue(name, JobState.SCHEDULED, cap),
            retryable=self._in_queue(name, JobState.RETRYABLE, cap),
            oldest_waiting_at=self._oldest_waiting(name),
        )

    def _oldest_waiting(self, name: str) -> datetime | None:
        """Return since when the queue's oldest available job is due, by River's fetching index."""
        oldest = self._value(
            "select min((select min(scheduled_at) from river_job where state = 'available'"
            " and queue = ? and priority = priorities.value))"
            " from json_each('[1, 2, 3, 4]') as priorities",
            [name],
        )
        return None if oldest is None else instant(oldest)

    def _counted(self, row: QueueRow, cap: int) -> QueueCountRow:
        available = self._in_queue(row.name, JobState.AVAILABLE, cap)
        running = self._in_queue(row.name, JobState.RUNNING, cap)
        return QueueCountRow(queue=row, available=available, running=running)


def _count(number: int, cap: int) -> Count:
    if number > cap:
        return Count(value=cap, kind=CountKind.AT_LEAST)
    return Count(value=number)


def _piece(row: JobRow, text: str | None, start: int, size: int) -> TextPiece | None:
    if text is None:
        return None
    data = text.encode()
    return TextPiece(data=data[start : start + size], size=len(data), version=str(hash(row)))
