"""Marks moments that charts show: what may be given, and who is the first."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from riverui.domain.marks import Mark
from riverui.errors import BadRequest, NotSupported
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.storage import tables
from riverui.storage.interface import SQL, Driver, Executor
from riverui.storage.tables import installed

WITHIN = timedelta(seconds=60)
"""Between the minutes of two marks of the same label: what tells of one deploy from many places at
once comes in the same minute or in the next.
"""
KEPT = timedelta(days=400)
"""How long marks are kept: as long as the figures of hours beside which they stand."""
_AHEAD = timedelta(days=1)
"""How far in the future a mark may be, for clocks and zones that are wrong."""
_FORGOTTEN = 100
"""Old marks that are deleted with each one that is made."""
_MOST = 200
"""Characters of a label, of a release and of a name."""
_MOST_URL = 2_000
"""Characters of an address: what browsers take everywhere."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_URL = re.compile(r"https?://[^\s\x00-\x20\x7f\"<>\\^`{|}]+", re.IGNORECASE)


async def mark_insert(driver: Driver, params: MarkInsertParams) -> tuple[Mark, bool]:
    """Make a mark and return it with True; with False the one of that label that there is already,
    of the same minute or of one beside it.

    BadRequest for what cannot be a mark, NotSupported where there is no table for them: then it
    says which command makes it.
    """
    params = checked(params, now=datetime.now(UTC))
    async with driver.transaction() as transaction:
        await _need_table(transaction)
        marks = MarkStore(transaction)
        await marks.mark_delete_before(datetime.now(UTC) - KEPT, limit=_FORGOTTEN)
        return await marks.mark_insert(params, within=WITHIN)


async def mark_insert_release(driver: Driver, release: str, *, client: str) -> Mark | None:
    """Mark a release that a client is the first to run; None where there is a mark of it, or no
    table for marks.
    """
    if SQL not in driver.capabilities:
        return None
    # What is wrong with it must not keep a worker from its work.
    name = _CONTROL.sub(" ", release).strip()[:_MOST]
    if not name:
        return None
    params = MarkInsertParams(label=name, release=name, user=client[:_MOST])
    async with driver.transaction() as transaction:
        if not await installed(transaction):
            return None
        return await MarkStore(transaction).mark_insert_release(params)


def checked(params: MarkInsertParams, *, now: datetime) -> MarkInsertParams:
    """Return a mark that can be kept, without spaces around its texts; BadRequest in words."""
    label, release, url = params.label.strip(), params.release.strip(), params.url.strip()
    for name, text in (("label", label), ("release", release)):
        if len(text) > _MOST:
            raise BadRequest(f"The {name} of a mark has at most {_MOST} characters.")
        if _CONTROL.search(text):
            raise BadRequest(f"The {name} of a mark cannot have control characters.")
    if not label:
        raise BadRequest("A mark needs a label, such as v1.4.2.")
    if url and (len(url) > _MOST_URL or not _URL.fullmatch(url)):
        raise BadRequest(
            "The URL of a mark must begin with https:// or http:// and have at most"
            f" {_MOST_URL:,} characters, without spaces."
        )
    if params.at is not None and not now - KEPT < params.at < now + _AHEAD:
        raise BadRequest(
            f"A mark cannot be older than {KEPT.days} days, or further ahead than a day."
        )
    user = _CONTROL.sub(" ", params.user)[:_MOST]
    return replace(params, label=label, release=release, url=url, user=user)


async def _need_table(executor: Executor) -> None:
    if not await installed(executor):
        raise NotSupported(tables.message("Marks need"))
