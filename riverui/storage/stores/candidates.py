"""Reads waiting jobs with the keys of their partitions, and fetches the chosen ones."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import Partition
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.interface.sql_blocks import EMPTY, Fragment, Rows, join
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_fetch import in_order, which
from riverui.storage.postgres.engine.job_rows import fetched_rows
from riverui.storage.store import Store


class Candidate(NamedTuple):
    """A job that may be fetched."""

    id: int
    kind: str
    keys: Mapping[Partition, str]
    """Its key in each requested partition."""


Full = Mapping[Partition, Collection[str]]
"""Keys of which no job can be fetched now; their jobs are not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRange:
    """Which keys of a partition to read, and how many jobs of each."""

    partition: Partition
    per_key: int
    keys: int
    """Most keys, in their own order."""
    after: str = ""
    """Only keys after this one."""


class KeyPage(NamedTuple):
    """Jobs of some keys."""

    candidates: Sequence[Candidate]
    last_key: str | None
    """The last key that was read; None if no more follow."""


_ALL_ARGS = Fragment("partition_all_args")
_BY_KIND = Fragment("partition_by_kind")
_CLAIMED = Fragment("job_claimed")
_WHOLE = Fragment("partition_whole")


class CandidateStore(Store):
    """Operations on jobs that may be fetched, and the indexes that find them."""

    async def job_candidate_list(
        self,
        params: JobFetchParams,
        partitions: Collection[Partition],
        *,
        window: int,
        full: Full | None = None,
        few: KeyRange | None = None,
    ) -> Sequence[Candidate]:
        """Return up to `params.limit` jobs in the order in which they would be fetched, out of the
        first `window` waiting ones; of each key only the first `few.per_key`.
        """
        values = {**which(params), "window": window, "limit": params.limit, "per_key": 1}
        slots = _slots(params, partitions, full)
        if few is not None:
            values["per_key"] = few.per_key
            place = 1 + list(partitions).index(few.partition)
            slots["place"] = Fragment("candidate_place", {"by": place})
        elif params.after is not None:
            # They come in order: a sort would read all of the window.
            slots["order"] = EMPTY
        rows = await self._sql.rows("job_candidate_list", values, **slots)
        return _candidates(rows, partitions)

    async def job_candidate_list_by_key(
        self,
        params: JobFetchParams,
        partitions: Collection[Partition],
        *,
        keys: KeyRange,
        full: Full | None = None,
    ) -> KeyPage:
        """Return the first jobs of each of some keys, all of them in the order in which they would
        be fetched, whatever waits before them; `params.limit` and `params.after` are ignored.

        It needs the partition's index: without it, it reads all waiting jobs of the queue.
        """
        by, others = keys.partition, dict(full or {})
        values = {
            **which(params),
            "after": keys.after,
            "full_keys": array_literals.texts(list(others.pop(by, ()))),
            "keys_most": keys.keys,
            "per_key": keys.per_key,
        }
        slots = {**_slots(params._replace(after=None), partitions, others), "key": key_of(by)}
        rows = await self._sql.rows("job_candidate_list_by_key", values, **slots)
        first = rows.first()
        return KeyPage(_candidates(rows, partitions), first.last_key if first else None)

    async def job_claim(self, params: JobFetchParams, ids: Sequence[int]) -> Sequence[JobRow]:
        """Make those of the jobs running that are still available, as job_get_available does, and
        return them; those that another client is fetching are left out.
        """
        values = {
            "ids": array_literals.numbers(ids),
            "queue": params.queue,
            "now": params.now,
            "max_attempted_by": params.max_attempted_by,
            "client_id": params.client_id,
        }
        rows = await self._sql.prepared(
            "job_get_available",
            values,
            which=_CLAIMED,
            attempted_by=Fragment("job_attempted_by"),
        )
        return fetched_rows(rows, params.client_id, params.queue)

    async def job_key_list(self, ids: Sequence[int], partition: Partition) -> Mapping[int, str]:
        """Return the keys of jobs by id, missing ones left out."""
        values = {"ids": array_literals.numbers(ids)}
        rows = await self._sql.rows("job_key_list", values, keys=key_of(partition))
        return {row.id: row.key for row in rows.records()}

    async def job_key_get(self, id: int, partition: Partition) -> str:
        """Return a job's key; empty if the job was deleted."""
        if partition.whole:
            return ""
        return (await self.job_key_list([id], partition)).get(id, "")

    async def partition_index_list(self) -> Collection[str]:
        """Return the names of the usable indexes of partitions."""
        rows = await self._sql.rows("partition_index_list", {"schema": self._sql.schema})
        return frozenset(rows.values())

    async def partition_index_create(self, partition: Partition) -> None:
        """Make a partition's index, or remake it if it was left invalid; writers are not blocked.

        Not inside a transaction.
        """
        if partition.index_name in await self.partition_index_list():
            return
        await self.partition_index_drop(partition)
        text, values = self._sql.render(key_of(partition))
        key = re.sub(r"\$(\d+)", lambda found: _literal(values[int(found[1]) - 1]), text)
        table = "river_job" if self._sql.schema is None else f'"{self._sql.schema}".river_job'
        await self._sql.run(
            f'create index concurrently "{partition.index_name}" on {table} using btree (queue,'
            f" (({key}) collate \"C\"), priority, scheduled_at, id) where state = 'available'"
        )

    async def partition_index_drop(self, partition: Partition) -> None:
        """Drop a partition's index, if it is there. Not inside a transaction."""
        name = f'"{partition.index_name}"'
        if self._sql.schema is not None:
            name = f'"{self._sql.schema}".{name}'
        await self._sql.run(f"drop index concurrently if exists {name}")


def _slots(
    params: JobFetchParams, partitions: Collection[Partition], full: Full | None
) -> dict[str, Fragment]:
    """Return what fills the slots that both lists have."""
    slots = in_order(params)
    slots["keys"] = join((key_of(partition) for partition in partitions), ", ")
    terms = [
        Fragment(
            "candidate_not_full", {"place": place, "full": array_literals.texts(list(full[by]))}
        )
        for place, by in enumerate(partitions, 1)
        if full and full.get(by)
    ]
    if terms:
        slots["not_full"] = join(terms)
    return slots


def key_of(partition: Partition) -> Fragment:
    """Return the SQL of a job's key."""
    if partition.by_args is None:
        return _BY_KIND if partition.by_kind else _WHOLE
    args = Fragment("partition_by_args", args=_args(partition.by_args))
    return Fragment("partition_by_both", args=args) if partition.by_kind else args


def _args(names: Sequence[str]) -> Fragment:
    """Return the SQL of the args that count, as one text."""
    if not names:
        return _ALL_ARGS
    pieces: list[Any] = []
    for place, name in enumerate(names):
        label = ("" if place == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": "
        piece = Fragment("partition_arg", {"label": label, "name": name})
        pieces += (" || ", piece) if pieces else (piece,)
    return Fragment("partition_some_args", values=Fragment(tuple(pieces)))


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _candidates(rows: Rows, partitions: Collection[Partition]) -> list[Candidate]:
    names = tuple(partitions)
    return [
        Candidate(row.id, row.kind, dict(zip(names, row.keys, strict=True)))
        for row in rows.records()
        if row.id is not None
    ]
