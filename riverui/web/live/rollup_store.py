"""Stores finished buckets, folds them up, and deletes old ones: one dashboard at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from riverui.domain.rollups import KEPT, MINUTE, PARTS, Rollup, begin, fold
from riverui.storage.interface import ROLLUPS, Driver, RollupExecutor

_FOLDED = 60
"""Buckets of each span that one transaction folds up at most: what is left waits for the next one,
so that none takes long.
"""
_FOLDED_MINUTES = 3
"""Minutes of which several clients told that one transaction tells as one, at most."""
_DELETED = 2_000
"""Old rows of each span that one transaction deletes at most: more than a minute brings."""
_SAMPLED_MARGIN = 1.2
"""How much more a sampled bucket must tell of than one that was read whole, to take its place:
chance makes less than that of a sample.
"""
_TIMEOUT = timedelta(seconds=10)
"""For each statement; the largest take some 10 milliseconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What one transaction did."""

    written: int
    """Buckets, of any span."""
    newest: datetime | None
    """When the newest minute begins that was written; None where none was."""
    deleted: int
    """Rows."""


async def store(driver: Driver, rollups: Sequence[Rollup], *, until: datetime) -> Stored | None:
    """Store what these buckets tell, up to this time, in one transaction; None where another
    dashboard is writing.

    Of two buckets of the same time the one that tells of more stays, so it does no harm to store
    them twice, in any order or by several dashboards: in the end the same is there. Whatever is
    over is folded up into the next wider span in the same transaction.
    """
    async with driver.transaction(timeout=_TIMEOUT) as transaction:
        executor = ROLLUPS.on(transaction)
        if not await executor.rollup_lock():
            return None
        changed = await _offer(executor, rollups)
        for span in PARTS:
            changed += await _fold_up(executor, span, changed, until=until)
        await executor.rollup_client_fold(limit=_FOLDED_MINUTES)
        deleted = await executor.rollup_client_delete_old(limit=_DELETED)
        for span, kept in KEPT.items():
            deleted += await executor.rollup_delete_before(
                span, begin(until - kept, span), limit=_DELETED
            )
    newest = max((each.at for each in changed if each.span == MINUTE), default=None)
    return Stored(written=len(changed), newest=newest, deleted=deleted)


async def _fold_up(
    executor: RollupExecutor, span: timedelta, changed: Sequence[Rollup], *, until: datetime
) -> list[Rollup]:
    """Fold up what is over and not stored yet, or of which a part has changed."""
    part = PARTS[span]
    over = begin(until, span)
    wanted = {begin(each.at, span) for each in changed if each.span == part}
    wanted |= set(
        await executor.rollup_unfolded_list(span, since=begin(until - KEPT[part], span), until=over)
    )
    folded = []
    for at in sorted(at for at in wanted if at < over)[:_FOLDED]:
        parts = await executor.rollup_part_list(part, since=at, until=at + span)
        folded.append(fold(parts, at=at, span=span))
    return await _offer(executor, folded)


async def _offer(executor: RollupExecutor, rollups: Sequence[Rollup]) -> list[Rollup]:
    """Store those that tell of more than what is stored; return them."""
    better = []
    for span in {each.span for each in rollups}:
        offered = [each for each in rollups if each.span == span]
        told = await executor.rollup_told_list(span, [each.at for each in offered])
        for each in offered:
            if each.at not in told:
                better.append(each)
            elif _is_better(each, *told[each.at]):
                before = await executor.rollup_get(span, each.at)
                better.append(_with_waiting(each, before))
    await executor.rollup_put(better)
    return better


def _is_better(offered: Rollup, weight: int, sampled: int) -> bool:
    margin = _SAMPLED_MARGIN if offered.sampled > sampled else 1
    return offered.weight > weight * margin


def _with_waiting(rollup: Rollup, before: Rollup | None) -> Rollup:
    """Return a bucket with what was seen to wait then: rows cannot tell it afterwards."""
    waiting = dict(rollup.waiting)
    for queue, seen in before.waiting.items() if before else ():
        waiting[queue] = seen.max(waiting.get(queue))
    return replace(rollup, waiting=waiting)
