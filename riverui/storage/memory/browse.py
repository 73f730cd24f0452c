"""Reads for the dashboard and the JSON API: lists, counts, single jobs, queues with their jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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
    Count,
    CountKind,
    JobCutoff,
    JobFilter,
    JobJsonPage,
    JobPage,
    JobPageParams,
    JobProgress,
    JobTextPage,
    TextPiece,
)
from riverui.storage.memory import job_texts
from riverui.storage.memory.job_filter import fits, like, place
from riverui.storage.memory.queues import Queues
from riverui.storage.memory.statements import statement

_TEXTS = frozenset({"args", "errors", "job", "metadata", "output"})
_EVERY_ARGS = 10_000_000
"""Most characters of one job's args in an answer: as on Postgres."""


class Browse(Queues):
    """Reading operations."""

    @statement
    def job_list(self, params: JobPageParams) -> JobPage:
        """Return one page of jobs; see JobPageParams."""
        rows, more = self._page(params)
        return JobPage(rows=tuple(job_texts.list_row(row, params) for row in rows), more=more)

    @statement
    def job_text_list(
        self, params: JobPageParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobTextPage:
        """Return one page of jobs with their args as text."""
        rows, more = self._page(params)
        texts = [job_texts.text_row(row, args=args, paths=params.paths) for row in rows]
        return JobTextPage(rows=tuple(texts), more=more)

    async def job_json_list(self, params: JobPageParams, *, args: int) -> JobJsonPage | None:
        """Return None: `job_text_list` is used instead."""
        return None

    async def job_json_get(self, id: int) -> str | None:
        """Return None: `job_text_get` is used instead."""
        return None

    @statement
    def job_count(self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None) -> Count:
        """Count the jobs that match: AT_LEAST from `cap` on."""
        return _count(sum(fits(row, filter, cutoff) for row in self._jobs()), cap)

    @statement
    def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """Count all eight states: exact up to `cap`, AT_LEAST beyond."""
        counts = Counter(row.state for row in self._jobs())
        return {state: _count(counts[state], cap) for state in JobState}

    @statement
    def job_count_exact(self, state: JobState) -> Count:
        """Count exactly."""
        return Count(value=sum(row.state is state for row in self._jobs()))

    @statement
    def job_cutoff(self) -> JobCutoff:
        """Return the newest id and the time."""
        newest = max((row.id for row in self._jobs()), default=0)
        return JobCutoff(id=newest, at=self._clock())

    @statement
    def job_get(self, id: int, *, cut: int = 200_000, lean: bool = False) -> JobShowRow | None:
        """Return one job, its long texts cut to `cut` characters, or None."""
        row = self._job(id)
        return None if row is None else job_texts.show_row(row, cut=cut, lean=lean)

    @statement
    def job_text_get(self, id: int) -> JobTextRow | None:
        """Return one job with its JSON as text, or None."""
        row = self._job(id)
        return None if row is None else job_texts.text_row(row, args=_EVERY_ARGS, whole=True)

    @statement
    def job_log_piece(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt; None without one."""
        row = self._job(id)
        return None if row is None else _piece(row, job_texts.log_text(row, attempt), start, size)

    @statement
    def job_text_piece(self, id: int, field: str, *, start: int = 0, size: int) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of a field, or of the `job`; None if there
        is none.
        """
        if field not in _TEXTS:
            raise BadRequest(f"A job has no text “{field}”.")
        row = self._job(id)
        return None if row is None else _piece(row, job_texts.json_text(row, field), start, size)

    @statement
    def job_kind_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return distinct kinds by name: those behind `after` that contain `match`, but not
        `exclude`.
        """
        kinds = {row.kind for row in self._jobs()}
        return _names(kinds - set(exclude), match, after)[:limit]

    @statement
    def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state."""
        counts = Counter(row.state for row in self._jobs() if fits(row, filter))
        return JobProgress(counts={state: counts[state] for state in JobState}, exact=True)

    @statement
    def queue_get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        jobs = self._jobs_of(name)
        row = self._queue(name)
        return None if row is None and not jobs else _listed(name, row, jobs, cap)

    @statement
    def queue_list(self, *, match: str = "", cap: int, limit: int = 200) -> Sequence[QueueListRow]:
        """Return queues by name: those with a row, and those with unfinished jobs."""
        used = {row.queue for row in self._jobs() if row.state not in FINALIZED}
        names = _names({*used, *(row.name for row in self._queues())}, match)[:limit]
        return [_listed(name, self._queue(name), self._jobs_of(name), cap) for name in names]

    @statement
    def queue_state_count(
        self, pairs: Sequence[tuple[str, JobState]], *, cap: int
    ) -> Mapping[tuple[str, JobState], int]:
        """Count the jobs of queues in states."""
        counts = Counter((row.queue, row.state) for row in self._jobs())
        return {pair: min(counts[pair], cap) for pair in pairs}

    @statement
    def queue_kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Count the queue's unfinished jobs by kind."""
        counts = Counter(
            (row.kind, row.state) for row in self._jobs_of(name) if row.state not in FINALIZED
        )
        kinds: dict[str, dict[JobState, Count]] = {}
        for (kind, state), number in sorted(counts.items()):
            kinds.setdefault(kind, {})[state] = _count(number, cap)
        return list(kinds.items())

    @statement
    def queue_failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """Return the queue's discarded and retryable jobs, newest attempt first."""
        failed = sorted(
            (row for row in self._jobs_of(name) if row.state in FAILED),
            key=lambda row: (row.attempted_at or row.scheduled_at, row.id),
            reverse=True,
        )
        return [job_texts.list_row(row, JobPageParams()) for row in failed[:limit]]

    @statement
    def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return names of queues that contain `match`: those with a row and those with jobs."""
        used = {row.queue for row in self._jobs()}
        return _names({*used, *(row.name for row in self._queues())}, match)[:limit]

    @statement
    def queue_row_name_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return names of queues that have a row, chosen as those of `job_kind_list`."""
        names = {row.name for row in self._queues()}
        return _names(names - set(exclude), match, after)[:limit]

    @statement
    def queue_count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """Return queue rows by name with their counts, exact up to `cap`."""
        return [self._counted(row, cap) for row in self._queues()[:limit]]

    @statement
    def queue_count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """Return one queue's row with its counts; None without a row."""
        row = self._queue(name)
        return None if row is None else self._counted(row, cap)

    def _page(self, params: JobPageParams) -> tuple[list[JobRow], bool]:
        """Return the jobs of a page in the order of display, and whether more follow."""
        order, cursor = params.order, params.cursor
        rows = [row for row in self._jobs() if fits(row, params.filter, params.cutoff)]
        rows.sort(key=lambda row: place(row, order), reverse=order.descending)
        if cursor is not None:
            at = (cursor.id,) if order.by_id else (cursor.at, cursor.id)
            # The jobs after the cursor, or before it, in the order of display.
            smaller = cursor.before is not order.descending
            rows = [
                row
                for row in rows
                if place(row, order) != at and (place(row, order) < at) is smaller
            ]
            if cursor.before:
                return rows[-params.limit :], len(rows) > params.limit
        return rows[: params.limit], len(rows) > params.limit

    def _jobs_of(self, queue: str) -> list[JobRow]:
        return [row for row in self._jobs() if row.queue == queue]

    def _counted(self, row: QueueRow, cap: int) -> QueueCountRow:
        listed = _listed(row.name, row, self._jobs_of(row.name), cap)
        return QueueCountRow(queue=row, available=listed.available, running=listed.running)


def _count(number: int, cap: int) -> Count:
    if number > cap:
        return Count(value=cap, kind=CountKind.AT_LEAST)
    return Count(value=number)


def _names(names: Iterable[str], match: str, after: str = "") -> list[str]:
    wanted = f"*{match.replace('*', '')}*"
    return sorted(name for name in names if name > after and like(name, wanted))


def _listed(name: str, row: QueueRow | None, jobs: Sequence[JobRow], cap: int) -> QueueListRow:
    counts = Counter(job.state for job in jobs)
    unserved = QueueRow(
        name=name,
        created_at=None,
        metadata=JsonText(text="{}", size=2),
        paused_at=None,
        updated_at=None,
    )
    return QueueListRow(
        queue=row or unserved,
        available=min(counts[JobState.AVAILABLE], cap),
        running=min(counts[JobState.RUNNING], cap),
        scheduled=min(counts[JobState.SCHEDULED], cap),
        retryable=min(counts[JobState.RETRYABLE], cap),
        oldest_waiting_at=min(
            (job.scheduled_at for job in jobs if job.state is JobState.AVAILABLE), default=None
        ),
    )


def _piece(row: JobRow, text: str | None, start: int, size: int) -> TextPiece | None:
    if text is None:
        return None
    data = text.encode()
    return TextPiece(data=data[start : start + size], size=len(data), version=str(hash(row)))
