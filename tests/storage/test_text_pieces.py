"""Texts of a job of any length, read in pieces."""

from __future__ import annotations

import json

import pytest

from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.params import TextPiece
from tests.factory import Make


async def piece(driver: Driver, job_id: int, field: str, start: int, size: int) -> TextPiece | None:
    async with driver.reading() as executor:
        return await executor.jobs.text_piece(job_id, field, start=start, size=size)


async def test_pieces_join_to_the_whole_text(driver: Driver, make: Make) -> None:
    job_id = await make.job(args={"a": "äöü" * 100})
    found = b""
    while True:
        part = await piece(driver, job_id, "args", len(found), 7)
        assert part is not None
        assert len(part.data) <= 7
        found += part.data
        if not part.data:
            break
    assert json.loads(found) == {"a": "äöü" * 100}
    assert part.size == len(found)


async def test_a_change_of_the_row_is_told(driver: Driver, make: Make) -> None:
    job_id = await make.job(args={"a": 1})
    first = await piece(driver, job_id, "args", 0, 3)
    again = await piece(driver, job_id, "args", 3, 3)
    assert first is not None
    assert again is not None
    assert first.version == again.version
    await make.connection.execute("update river_job set priority = 2 where id = %s", [job_id])
    changed = await piece(driver, job_id, "args", 3, 3)
    assert changed is not None
    assert changed.version != first.version


async def test_a_field_that_is_none_is_refused(driver: Driver, make: Make) -> None:
    job_id = await make.job()
    assert await piece(driver, job_id, "output", 0, 10) is None
    with pytest.raises(BadRequest):
        await piece(driver, job_id, "id; drop table river_job", 0, 10)


async def test_logs_that_name_no_attempt_are_those_of_attempt_0(driver: Driver, make: Make) -> None:
    entries = [
        {"attempt": None, "log": "null"},
        {"attempt": -1, "log": "minus"},
        {"attempt": "two", "log": "two\n"},
        {"attempt": 1.5, "log": 7},
        {"attempt": 10**30, "log": "far"},
        {"log": "none"},
        {"attempt": "3", "log": "three"},
        5,
    ]
    job_id = await make.job(metadata={"river:log": entries})
    async with driver.reading() as executor:
        found = {
            attempt: await executor.jobs.log_piece(job_id, attempt, size=1_000)
            for attempt in (0, -1, 3, 1, 7)
        }
    texts = {attempt: piece.data.decode() if piece else None for attempt, piece in found.items()}
    assert texts == {0: "null\ntwo\n7\nfar\nnone", -1: "minus", 3: "three", 1: None, 7: None}
