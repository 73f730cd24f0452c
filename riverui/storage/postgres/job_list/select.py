"""Whole jobs by River's own list parameters, put together from closed clauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import FINALIZED, JobRow
from riverui.domain.numbers import is_bigint
from riverui.errors import BadRequest, DatabaseError
from riverui.storage.interface.params import JobSelectParams
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_rows import job_rows
from riverui.storage.postgres.statements import Row, Statements, instant
from riverui.storage.sql import Queries, number
from riverui.storage.where import Where, numbered

_CONDITIONS_FAULT = ("22", "42")
"""Classes of SQLSTATE for values that do not fit and SQL that is none."""
_NO_PRIVILEGE = "42501"
_WHERE = "/*where*/"
"""Holds the place of a program's own conditions; not written as a slot, so that it is left where it
is.
"""
_TIMES = frozenset({"attempted_at", "finalized_at", "scheduled_at"})


class JobSelect(Statements):
    """Operations on the jobs that a JobSelectParams names."""

    async def job_row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Whole jobs in the order asked for; see JobSelectParams."""
        terms, parameters = _terms(params, self._queries)
        direction = " desc" if params.descending else ""
        order = ", ".join(f"j.{name}{direction}" for name in dict.fromkeys((params.order, "id")))
        rows = await self._selected(
            "job_row_list",
            parameters,
            params.where,
            terms=" ".join([*terms, *_place(params, self._queries, parameters)]),
            order=order,
            columns=self._queries.text("job_columns"),
        )
        return job_rows(rows)

    async def job_row_delete_many(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Deletes what matches but running and locked jobs, up to `limit` by id; gives the rows
        deleted.
        """
        terms, parameters = _terms(params, self._queries)
        rows = await self._selected(
            "job_row_delete_many",
            parameters,
            params.where,
            terms=" ".join(terms),
            columns=self._queries.text("job_columns"),
            names=self._queries.text("job_column_names"),
        )
        return job_rows(rows)

    async def _selected(
        self, name: str, parameters: Mapping[str, Any], where: Sequence[Where], /, **clauses: str
    ) -> list[Row]:
        """The rows of one block; BadRequest with the database's words for conditions that it
        refuses.
        """
        if not where:
            return await self._rows(name, parameters, **clauses)
        clauses["terms"] += f" and {_WHERE}"
        text, names = number(self._queries.text(name, **clauses))
        # A program's own text comes in last, so that nothing in it is taken for one of our slots or
        # names.
        conditions, values = numbered(where, len(names) + 1)
        text = text.replace(_WHERE, conditions)
        try:
            return await self._ask(name, text, [*(parameters[key] for key in names), *values])
        except (BadRequest, DatabaseError) as error:
            state = getattr(error.__cause__, "sqlstate", None) or ""
            if state.startswith(_CONDITIONS_FAULT) and state != _NO_PRIVILEGE:
                raise BadRequest(
                    f"The database rejects the condition: {error.__cause__}"
                ) from error
            raise


def _terms(params: JobSelectParams, queries: Queries) -> tuple[list[str], dict[str, Any]]:
    if params.order != "id" and params.order not in _TIMES:
        raise BadRequest(f"Jobs cannot be ordered by “{params.order}”.")
    parameters: dict[str, Any] = {"limit": params.limit}
    given: list[tuple[str, Any]] = []
    if params.ids:
        ids = [asked for asked in params.ids if is_bigint(asked)]
        given.append(("ids", array_literals.numbers(ids)))
    if params.kinds:
        given.append(("kinds", array_literals.texts(params.kinds)))
    if params.priorities:
        priorities = [priority for priority in params.priorities if 0 <= priority < 2**15]
        given.append(("priorities", array_literals.numbers(priorities)))
    if params.queues:
        given.append(("queues", array_literals.texts(params.queues)))
    if len(params.states) == 1:
        given.append(("state", params.states[0].value))
    elif params.states:
        given.append(("states", array_literals.texts([state.value for state in params.states])))
    if params.tags_all:
        given.append(("tags_all", array_literals.texts(params.tags_all)))
    if params.tags_any:
        given.append(("tags_any", array_literals.texts(params.tags_any)))
    if params.metadata is not None:
        given.append(("metadata", array_literals.storable_text(params.metadata)))
    parameters.update(given)
    terms = [queries.text(f"job_select_{name}") for name, _ in given]
    if params.states and FINALIZED.issuperset(params.states):
        terms.append(queries.text("job_select_finalized"))
    return terms, parameters


def _place(params: JobSelectParams, queries: Queries, parameters: dict[str, Any]) -> list[str]:
    """Where the page begins. Nulls come last, and first when descending: Postgres's own order."""
    if params.after is None:
        return []
    at, parameters["after_id"] = params.after
    side = "before" if params.descending else "after"
    if params.order == "id":
        return [queries.text(f"job_select_{side}_id")]
    if at is None:
        return [queries.text(f"job_select_{side}_null", column=params.order)]
    parameters["after_at"] = instant(at)
    return [queries.text(f"job_select_{side}", column=params.order)]
