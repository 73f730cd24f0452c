"""GET /api/jobs/{id}/log: a log in pieces, also while it is written."""

from __future__ import annotations

from tests.factory import Make
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate


async def test_a_log_is_read_piece_by_piece_while_it_grows(get: Get, make: Make) -> None:
    log = {"river:log": [{"attempt": 1, "log": "old\n"}, {"attempt": 2, "log": "héllo\n"}]}
    made = await make.job("running", attempt=2, metadata=log)
    first = await get(f"jobs/{made}/log")
    validate("JobLog", first)
    assert first == {
        "id": made,
        "state": "running",
        "attempts": 2,
        "attempt": 2,
        "start": 0,
        "next": 7,
        "size": 7,
        "text": "héllo\n",
    }
    again = await get(f"jobs/{made}/log", start=7)
    assert (again["text"], again["next"]) == ("", 7)
    await make.execute(
        "update river_job set metadata = jsonb_set(metadata, '{river:log,1,log}',"
        " '\"héllo\\nworld\\n\"')"
    )
    assert (await get(f"jobs/{made}/log", start=7))["text"] == "world\n"
    assert (await get(f"jobs/{made}/log", attempt=1))["text"] == "old\n"


async def test_a_piece_never_ends_within_a_letter(get: Get, make: Make) -> None:
    log = {"river:log": [{"attempt": 1, "log": "a" + "é" * 600_000}]}
    made = await make.job("completed", metadata=log)
    first = await get(f"jobs/{made}/log")
    assert (first["next"], first["size"]) == (999_999, 1_200_001)
    rest = await get(f"jobs/{made}/log", start=first["next"])
    assert first["text"] + rest["text"] == log["river:log"][0]["log"]
    assert rest["next"] == rest["size"]


async def test_what_has_no_log_and_what_makes_no_sense(get: Get, make: Make) -> None:
    made = await make.job("running")
    empty = await get(f"jobs/{made}/log")
    assert (empty["text"], empty["size"], empty["next"]) == ("", 0, 0)
    assert "not found" in (await get("jobs/77/log", 404))["message"]
    for wrong in ({"start": "x"}, {"start": -1}, {"attempt": 2**63}, {"attemp": 1}):
        assert (await get(f"jobs/{made}/log", 400, **wrong))["message"]
