"""Makes marks, and checks their values."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from riverui.domain.marks import Mark
from riverui.errors import BadRequest, NotSupported
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.storage import tables
from riverui.storage.interface import Driver, Executor

WITHIN = timedelta(seconds=60)
"""Maximum distance of two marks with the same label that count as one: the reports of one deploy
from several places arrive within the same minute or the next.
"""
KEPT = timedelta(days=400)
"""How long marks are kept: as long as the hourly figures in the same charts."""
_AHEAD = timedelta(days=1)
"""How far in the future a mark may be, for wrong clocks and time zones."""
_FORGOTTEN = 100
"""Old marks that are deleted with each new one."""
_MAX_TEXT = 200
"""Longest label, release and name, in characters."""
_MAX_URL = 2_000
"""Longest URL, in characters: what all browsers accept."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_URL = re.compile(r"https?://[^\s\x00-\x20\x7f\"<>\\^`{|}]+", re.IGNORECASE)


async def mark_insert(driver: Driver, params: MarkInsertParams) -> tuple[Mark, bool]:
    """Make a mark and return it with True; if one with the same label exists, in the same minute or
    one next to it, return that one with False.

    Raise BadRequest for values that are not valid, and NotSupported, which names the missing
    migration, without their table.
    """
    params = checked(params, now=datetime.now(UTC))
    async with driver.transaction() as transaction:
        await _need_table(transaction)
        marks = MarkStore(transaction)
        await marks.mark_delete_before(datetime.now(UTC) - KEPT, limit=_FORGOTTEN)
        return await marks.mark_insert(params, within=WITHIN)


async def mark_insert_release(driver: Driver, release: str, *, client: str) -> Mark | None:
    """Mark a release that a client is the first to run; return None if a mark of it exists, or
    without the table of marks.
    """
    # An invalid name must not stop a worker.
    name = _CONTROL.sub(" ", release).strip()[:_MAX_TEXT]
    if not name:
        return None
    params = MarkInsertParams(label=name, release=name, user=client[:_MAX_TEXT])
    async with driver.transaction() as transaction:
        if not await MarkStore.installed(transaction):
            return None
        return await MarkStore(transaction).mark_insert_release(params)


def checked(params: MarkInsertParams, *, now: datetime) -> MarkInsertParams:
    """Return the mark with spaces around its texts removed; raise BadRequest if it is not valid."""
    label, release, url = params.label.strip(), params.release.strip(), params.url.strip()
    for name, text in (("label", label), ("release", release)):
        if len(text) > _MAX_TEXT:
            raise BadRequest(f"The {name} of a mark has at most {_MAX_TEXT} characters.")
        if _CONTROL.search(text):
            raise BadRequest(f"The {name} of a mark cannot have control characters.")
    if not label:
        raise BadRequest("A mark needs a label, such as v1.4.2.")
    if url and (len(url) > _MAX_URL or not _URL.fullmatch(url)):
        raise BadRequest(
            "The URL of a mark must begin with https:// or http:// and have at most"
            f" {_MAX_URL:,} characters, and no spaces."
        )
    if params.at is not None and not now - KEPT < params.at < now + _AHEAD:
        raise BadRequest(
            f"A mark cannot be older than {KEPT.days} days, or further ahead than a day."
        )
    user = _CONTROL.sub(" ", params.user)[:_MAX_TEXT]
    return replace(params, label=label, release=release, url=url, user=user)


async def _need_table(executor: Executor) -> None:
    if not await MarkStore.installed(executor):
        raise NotSupported(tables.message("Marks need"))
