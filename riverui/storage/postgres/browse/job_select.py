"""List, count and delete whole jobs by River's list parameters, made of fixed clauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.domain.values import MAX_SMALLINT, is_bigint
from riverui.errors import BadRequest, DatabaseError
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.interface.sql_blocks import Fragment, Placeholder, Rows, join, word
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.rows import known_state
from riverui.storage.postgres.engine.job_rows import JOB_COLUMNS, JOB_METADATA, job_rows
from riverui.storage.postgres.statements import Part, instant
from riverui.storage.where import Where

_CONDITIONS_FAULT = ("22", "42")
"""SQLSTATE classes for invalid values and invalid SQL."""
_NO_PRIVILEGE = "42501"
_TIMES = frozenset({"attempted_at", "finalized_at", "scheduled_at"})


class JobSelect(Part):
    """Operations on the jobs that a JobSelectParams names."""

    async def row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Return whole jobs in the order asked for; see JobSelectParams."""
        terms = [*_terms(params), *_place(params)]
        slots = {"columns": JOB_COLUMNS, **_order(params)}
        return job_rows(await self._selected("job_row_list", params, terms, **slots))

    async def row_count(self, params: JobSelectParams) -> Mapping[JobState, int]:
        """Count the jobs that match by state, up to `limit` of them."""
        rows = await self._selected("job_row_count", params, _terms(params))
        found = ((known_state(row.state), row.jobs) for row in rows.records())
        return {state: jobs for state, jobs in found if state is not None}

    async def delete_selected(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Delete the jobs that match, except running and locked ones, up to `limit` by id; return
        the deleted rows.
        """
        return job_rows(
            await self._selected("job_delete_selected", params, _terms(params), columns=JOB_COLUMNS)
        )

    async def update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merge an object (JSON text) into the job's metadata, in any state; return the job, None
        without one.
        """
        if not is_bigint(id):
            return None
        values = {"id": id, "metadata": metadata}
        rows = await self._sql.rows(
            "job_update", values, columns=JOB_COLUMNS, metadata=JOB_METADATA
        )
        return next(iter(job_rows(rows)), None)

    async def row_get(self, id: int) -> JobRow | None:
        """Return one whole job, or None."""
        if not is_bigint(id):
            return None
        rows = await self._sql.rows("job_row_get", {"id": id}, columns=JOB_COLUMNS)
        return next(iter(job_rows(rows)), None)

    async def _selected(
        self, block: str, params: JobSelectParams, terms: list[Fragment], **slots: Fragment
    ) -> Rows:
        """Return the rows of one block; raise BadRequest with the database's message for conditions
        that it rejects.
        """
        for condition in params.where:
            terms += (word("and"), where_fragment(condition))
        values = {"limit": params.limit}
        try:
            return await self._sql.rows(block, values, terms=join(terms), **slots)
        except (BadRequest, DatabaseError) as error:
            state = getattr(error.__cause__, "sqlstate", None) or ""
            refused = state.startswith(_CONDITIONS_FAULT) and state != _NO_PRIVILEGE
            if params.where and refused:
                raise BadRequest(
                    f"The database rejects the condition: {error.__cause__}"
                ) from error
            raise


def where_fragment(condition: Where) -> Fragment:
    """Return a condition in brackets, its named args as the values of parameters.

    Nothing in the program's text is read as a slot or a parameter of riverui.
    """
    parts = enumerate(condition.split())
    pieces = [Placeholder(part) if place % 2 else part for place, part in parts]
    # The bracket is on its own line, as the condition may end in a comment.
    return Fragment(("(\n", *pieces, "\n)"), condition.named_args)


def _order(params: JobSelectParams) -> dict[str, Fragment]:
    slots = {"desc": word("desc")} if params.descending else {}
    if params.order == "id":
        return slots
    return {**slots, "by_time": Fragment("job_row_order", column=word(params.order), **slots)}


def choice_terms(params: JobSelectParams) -> list[Fragment]:
    """Return the conditions on columns that dead letters have as well: ids, kinds, priorities,
    queues and `tags_any`.
    """
    terms: list[Fragment] = []

    def add(block: str, value: str) -> None:
        terms.append(Fragment(block, {"value": value}))

    if params.ids:
        add(
            "job_select_ids",
            array_literals.numbers([asked for asked in params.ids if is_bigint(asked)]),
        )
    if params.kinds:
        add("job_select_kinds", array_literals.texts(params.kinds))
    if params.priorities:
        priorities = [priority for priority in params.priorities if 0 <= priority <= MAX_SMALLINT]
        add("job_select_priorities", array_literals.numbers(priorities))
    if params.queues:
        add("job_select_queues", array_literals.texts(params.queues))
    if params.tags_any:
        add("job_select_tags_any", array_literals.texts(params.tags_any))
    return terms


def _terms(params: JobSelectParams) -> list[Fragment]:
    if params.order != "id" and params.order not in _TIMES:
        raise BadRequest(f"Jobs cannot be ordered by “{params.order}”.")
    terms = choice_terms(params)

    def add(block: str, value: Any) -> None:
        terms.append(Fragment(block, {"value": value}))

    if len(params.states) == 1:
        add("job_select_state", params.states[0].value)
    elif params.states:
        states = [state.value for state in params.states]
        add("job_select_states", array_literals.texts(states))
    if params.tags_all:
        add("job_select_tags_all", array_literals.texts(params.tags_all))
    if params.metadata is not None:
        add("job_select_metadata", array_literals.check_text(params.metadata))
    if params.states and FINALIZED.issuperset(params.states):
        terms.append(Fragment("job_select_finalized"))
    return terms


def _place(params: JobSelectParams) -> list[Fragment]:
    """Return the condition for the beginning of the page. Nulls come last, and first when
    descending: Postgres's order.
    """
    if params.after is None:
        return []
    at, after_id = params.after
    down = params.descending
    if params.order == "id":
        block = "job_select_before_id" if down else "job_select_after_id"
        return [Fragment(block, {"after_id": after_id})]
    column = word(params.order)
    if at is None:
        block = "job_select_before_null" if down else "job_select_after_null"
        return [Fragment(block, {"after_id": after_id}, column=column)]
    block = "job_select_before" if down else "job_select_after"
    return [Fragment(block, {"after_at": instant(at), "after_id": after_id}, column=column)]
