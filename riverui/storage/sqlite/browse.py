"""Reads for the dashboard and the JSON API: lists, counts, single jobs, queues with their jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from riverui.domain.jobs import (
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
    Count,
    CountKind,
    JobCutoff,
    JobFilter,
    JobJsonPage,
    JobOrder,
    JobPage,
    JobPageParams,
    JobProgress,
    JobTextPage,
    SearchedWindow,
    TextPiece,
)
from riverui.storage.sqlite import job_list, job_texts
from riverui.storage.sqlite.job_filter import (
    Condition,
    all_of,
    condition_of,
    in_states,
    like,
    quoted,
)
from riverui.storage.sqlite.job_rows import COLUMNS, STATES, job_row
from riverui.storage.sqlite.queues import Queues
from riverui.storage.sqlite.statements import id_list, reads
from riverui.storage.sqlite.values import checked_text, instant

_TEXTS = frozenset({"args", "errors", "job", "metadata", "output"})
_COUNTED = 10_000
"""Jobs that a count compares if no index serves the filter."""


_FAILED_AT = "coalesce(attempted_at, scheduled_at) desc, id desc"
_FAILED = """
    select job.id from json_each('[1, 2, 3, 4]') as priorities cross join river_job as job
    where job.id in (
        select id from river_job
        where state = 'discarded' and queue = ? and priority = priorities.value
        order by scheduled_at desc limit 100
    )
    union all
    select * from (select id from river_job where state = 'retryable' and queue = ? limit 1000)
"""
"""A queue's discarded jobs that were due last, and retryable ones: River's fetching index finds
them.
"""
_UNFINISHED = quoted(state for state in JobState if state not in FINALIZED)
_MOST_NAMES = 5_000
"""Names among which those that match are looked for, as on Postgres."""
_KINDS = f"""
    with recursive kinds(name) as (
        select min(kind) from river_job where kind > ?1
        union all
        select (select min(kind) from river_job where kind > kinds.name)
        from kinds where name is not null limit {_MOST_NAMES}
    )
    select name from kinds where name is not null
"""
"""Distinct kinds, from one to the next along their index."""
_QUEUES = """
    with recursive used(state, name) as (
        select value, (select min(queue) from river_job where state = value)
        from json_each(json_array({states}))
        union all
        select state, (select min(queue) from river_job as next
            where next.state = used.state and next.queue > used.name)
        from used where name is not null limit 10000
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
        if not filter.terms and cutoff is None:
            return _count(self._number(in_states(filter.states), cap), cap)
        order = JobOrder.TIME_DESC if filter.states else JobOrder.ID_DESC
        params = JobPageParams(
            filter=filter, order=order, limit=cap, window=_COUNTED, cutoff=cutoff
        )
        found, ended = job_list.count(self._scope.connection, params)
        rough = ended or found > cap
        return Count(value=min(found, cap), kind=CountKind.AT_LEAST if rough else CountKind.EXACT)

    @reads
    def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """Count all eight states: exact up to `cap`, AT_LEAST beyond."""
        return {state: _count(self._number(in_states([state]), cap), cap) for state in JobState}

    @reads
    def job_count_exact(self, state: JobState) -> Count:
        """Count exactly."""
        where = in_states([state]).sql
        return Count(value=self._value(f"select count(*) from river_job where {where}"))

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
        return None if row is None else job_texts.text_row(row, args=job_texts.MAX_ARGS, whole=True)

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
        return self._names(_KINDS, match, after, exclude, limit)

    @reads
    def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state."""
        states = in_states(filter.states)
        found = all_of([condition_of(term) for term in filter.terms])
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
            f" where id in ({_FAILED}) order by {_FAILED_AT} limit ?) order by {_FAILED_AT}",
            [name, name, limit],
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
        found = job_list.find_page(self._scope.connection, params)
        rows = {
            row[0]: row
            for row in self._rows(
                f"select {columns} from river_job where id in (select value from json_each(?))",
                [id_list(found.ids)],
            )
        }
        ids = found.ids[::-1] if params.cursor and params.cursor.before else found.ids
        return [rows[each] for each in ids], found.more, found.searched

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
        try:
            checked_text(match)
        except BadRequest:
            return []
        return self._value_list(
            f"select name from ({source}) where name > ?1 and name like ?2 escape '!'"
            " and name not in (select value from json_each(?3)) order by name limit ?4",
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
