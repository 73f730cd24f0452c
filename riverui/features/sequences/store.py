"""Sequences in `riverui_sequence` and `riverui_sequence_job`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from riverui.domain.values import is_bigint
from riverui.features.sequences.domain import SequenceJob, SequencePlace
from riverui.storage.postgres import array_literals
from riverui.storage.store import Store


class Claim(StrEnum):
    """The state in which an insert finds a key, which is locked until its transaction ends."""

    OURS = "ours"
    """No job is ahead: the first job may run, and other inserts wait for this transaction."""
    BUSY = "busy"
    """A job is ahead, or was until just now: new jobs go behind it."""


class Claims(NamedTuple):
    """The states in which an insert finds its keys."""

    of_key: Mapping[str, Claim]
    pro: bool
    """Whether this database has River Pro's own sequences."""


class SequenceKey(NamedTuple):
    """The sequence named in a job's metadata."""

    key: str
    ours: bool
    """Whether riverui put the job there; otherwise River Pro did."""


class SequenceHead(NamedTuple):
    """The state of a key, for the leader's round."""

    key: str
    due: bool
    """Whether its head has ended or is missing, and the key was not moved on."""
    dry: bool = False
    """Whether it has no head."""


_LOOK = 100
"""Jobs in line that are read to find the next one, if the first is missing."""
_MAX_LOOKS = 10
"""How often lines are read in a row; if more jobs are missing, the leader continues."""
_MAX_TRIES = 100
"""How often keys are claimed, if some appear or disappear each time; after that, something is
wrong.
"""


class SequenceStore(Store):
    """Operations on sequences."""

    async def sequence_claim(self, keys: Collection[str]) -> Claims:
        """Return the states of keys, before their jobs are inserted."""
        found: dict[str, Claim] = {}
        pro = False
        missing = sorted(keys)
        for _ in range(_MAX_TRIES):
            values = {"keys": array_literals.texts(missing)}
            rows = await self._sql.prepared("sequence_claim", values)
            dry = []
            for row in rows.records():
                pro = row.pro
                found[row.seq_key] = Claim.OURS if row.found == "made" else Claim.BUSY
                if row.found == "dry":
                    dry.append(row.seq_key)
            if dry:
                values = {"keys": array_literals.texts(sorted(dry))}
                rows = await self._sql.prepared("sequence_claim_dry", values)
                found.update(dict.fromkeys(rows.values(), Claim.OURS))
            missing = [key for key in missing if key not in found]
            if not missing:
                return Claims(found, pro)
        raise AssertionError(f"{len(missing)} keys of sequences could not be claimed")

    async def sequence_put(
        self, heads: Sequence[tuple[str, int]], waiting: Sequence[tuple[str, int]]
    ) -> None:
        """Store which inserted jobs are heads of claimed keys, and which wait."""
        values = {
            "head_keys": array_literals.texts([key for key, _ in heads]),
            "head_ids": array_literals.numbers([job_id for _, job_id in heads]),
            "waiting_keys": array_literals.texts([key for key, _ in waiting]),
            "waiting_ids": array_literals.numbers([job_id for _, job_id in waiting]),
        }
        await self._sql.prepared("sequence_put", values)

    async def sequence_advance(
        self, keys: Collection[str], *, over_ids: Collection[int] = ()
    ) -> Sequence[str]:
        """Let the next job of each key run whose head has ended; return the keys that changed. Jobs
        of `over_ids` are known to be completed or missing.

        Keys locked by other transactions are left to `sequence_sweep`, so this never waits.
        """
        changed: dict[str, None] = {}
        left, look = sorted(keys), 1
        for _ in range(_MAX_LOOKS):
            values = {"keys": array_literals.texts(left), "look": look, "schema": self._sql.schema}
            values["over_ids"] = array_literals.numbers(over_ids)
            rows = await self._sql.prepared("sequence_advance", values)
            found = rows.records()
            changed.update(dict.fromkeys(row.seq_key for row in found))
            left = [row.seq_key for row in found if row.more]
            if not left:
                break
            look = _LOOK
        return list(changed)

    async def sequence_key_get_many(self, ids: Sequence[int]) -> Mapping[int, SequenceKey]:
        """Return the sequences of those jobs that are in one."""
        possible = [each for each in ids if is_bigint(each)]
        rows = await self._sql.rows("sequence_key_get_many", {"ids": possible})
        return {row.id: SequenceKey(row.seq_key, row.ours) for row in rows.records()}

    async def sequence_lock(self, keys: Collection[str]) -> None:
        """Lock keys until the end of the transaction; missing ones are created. Raise LockTimeout
        if another transaction holds one for too long.
        """
        left = set(keys)
        for _ in range(_MAX_TRIES):
            values = {"keys": array_literals.texts(sorted(left))}
            await self._sql.guarded("sequence_make", values)
            left -= set((await self._sql.guarded("sequence_lock", values)).values())
            if not left:
                return
        raise AssertionError(f"{len(left)} keys of sequences could not be held")

    async def sequence_requeue(self, jobs: Sequence[tuple[str, int]]) -> None:
        """Put jobs that have been made pending in line again, under locked keys. A halted head no
        longer halts its sequence afterwards.
        """
        values = {
            "keys": array_literals.texts([key for key, _ in jobs]),
            "ids": array_literals.numbers([job_id for _, job_id in jobs]),
        }
        await self._sql.rows("sequence_requeue", values)

    async def sequence_hand_over(self, keys: Collection[str]) -> bool:
        """Ask River Pro to look at keys; return False if its table is known not to be writable."""
        columns = list((await self._sql.rows("sequence_pro_columns")).records())
        if not any(column.name == "key" and column.is_text for column in columns):
            return False
        if any(column.needed for column in columns if column.name != "key"):
            return False
        await self._sql.rows("sequence_hand_over", {"keys": array_literals.texts(sorted(keys))})
        return True

    async def sequence_place(
        self, job_id: int, *, limit: int = 1000, named: int = 3
    ) -> SequencePlace | None:
        """Return a job's place, with up to `limit` jobs counted on each side and the nearest
        `named` of them listed; None for a job in no sequence.
        """
        if not is_bigint(job_id):
            return None
        row = await self._sql.row("sequence_place", {"id": job_id, "limit": limit, "named": named})
        if row is None:
            return None
        near = [
            SequenceJob(id=other, state=state or None, kind=kind)
            for other, state, kind in zip(
                row.near_ids, row.near_states, row.near_kinds, strict=True
            )
        ]
        return SequencePlace(
            key=row.seq_key,
            head_id=row.head_id,
            head_state=row.head_state,
            halted_at=row.halted_at,
            waiting=row.waiting,
            ahead=row.ahead,
            behind=row.behind,
            cap=limit,
            before=[one for one in near if one.id < job_id],
            after=[one for one in near if one.id > job_id],
        )

    async def sequence_skip(self, key: str, job_id: int) -> bool:
        """Skip a cancelled or discarded job, under a locked key, so that it no longer halts its
        sequence; return False if it did not, and would not when its turn came.
        """
        return await self._sql.row("sequence_skip", {"key": key, "id": job_id}) is not None

    async def sequence_dry_list(self, *, after: str, limit: int) -> Sequence[str]:
        """Return keys without a head by name, after `after`."""
        return (
            await self._sql.rows("sequence_dry_list", {"after": after, "limit": limit})
        ).values()

    async def sequence_sweep(self, keys: Collection[str]) -> int:
        """Give keys without a head their next job, and delete those without any; return how many
        were changed or deleted.
        """
        advanced = await self.sequence_advance(keys)
        values = {"keys": array_literals.texts(sorted(keys))}
        dry = (await self._sql.rows("sequence_lock_dry", values)).values()
        if not dry:
            return len(advanced)
        values = {"keys": array_literals.texts(dry)}
        return len({*advanced, *(await self._sql.rows("sequence_forget", values)).values()})

    async def sequence_list_heads(self, *, after: str, limit: int) -> Sequence[SequenceHead]:
        """Return keys by name, after `after`, and the state of their heads."""
        rows = await self._sql.rows("sequence_list_heads", {"after": after, "limit": limit})
        return [SequenceHead(row.seq_key, row.due, row.dry) for row in rows.records()]
