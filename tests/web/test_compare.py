"""A job beside the last good one of its kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from httpx2 import AsyncClient

from riverui import create_app
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.factory import Make, attempt_error
from tests.web.html import parse
from tests.web.stand_ins import browser

NOW = datetime.now(UTC)


async def attempted(make: Make, state: str, minutes: float, **columns: Any) -> int:
    """Insert a job that was worked for five seconds so many minutes ago."""
    at = NOW - timedelta(minutes=minutes)
    ended = {} if state == "retryable" else {"finalized_at": at + timedelta(seconds=5)}
    return await make.job(state, kind="mail", attempted_at=at, **ended, **columns)


async def test_the_last_good_one_before_it(client: AsyncClient, make: Make) -> None:
    await attempted(make, "completed", 30, args={"to": "old"})
    good = await attempted(make, "completed", 20, args={"to": "ada<b>", "n": 1})
    bad = await attempted(make, "discarded", 10, args={"to": "bob", "n": 1}, queue="slow")
    await attempted(make, "completed", 5, args={"to": "later"})
    head = parse((await client.get(f"/jobs/{bad}")).text)
    page = parse((await client.get(head.link("Compare with others"))).text)
    text = page.one("main").text
    assert f"#{good}" in text
    assert "ada<b>" in text
    assert '"bob"' in text
    assert "2 values are the same" in text
    assert "slow" in text
    assert "later" not in text
    assert "old" not in text
    assert not page.one("main").all("b")


async def test_what_failed_jobs_share_comes_first(client: AsyncClient, make: Make) -> None:
    for n in range(6):
        args: dict[str, object]
        args = {"order": {"id": n}, "host": "b" if n else "a", "lines": [{"sku": n % 2}]}
        await attempted(make, "completed", 30 - n, args=args)
        error = [attempt_error(25, f"refused after {n} s")]
        args = {"order": {"id": 10 + n}, "host": "a", "lines": [{"sku": 7 if n > 2 else None}]}
        bad = await attempted(make, "discarded", 20 - n, args=args, errors=error)
        other = [attempt_error(25, "timeout")]
        await attempted(make, "discarded", 10, args={"host": f"c{n}"}, errors=other)
    page = parse((await client.get(f"/jobs/{bad}/compare")).text)
    first, *_ = page.one("main").all(class_="compare-first")
    assert " ".join(first.text.split()) == (
        'args.host is "a" in 5 of 5 other jobs that failed like this one,'
        " and in 1 of 6 that completed."
    )
    shared, others = page.all("table")
    assert [row.one("th").text for row in shared.one("tbody").all("tr")] == ["args.host"]
    assert "args.order.id" in others.text
    assert page.one("details", class_="explain").text.split()[:3] == ["3", "other", "differences"]


async def test_nothing_to_compare_with(client: AsyncClient, make: Make) -> None:
    bad = await attempted(make, "retryable", 10)
    assert "No completed job to compare with" in (await client.get(f"/jobs/{bad}/compare")).text
    good = await attempted(make, "completed", 5)
    assert "Compare with" not in (await client.get(f"/jobs/{good}")).text


async def test_another_one_may_be_named(client: AsyncClient, make: Make) -> None:
    bad = await attempted(make, "discarded", 10, args={"n": 1})
    other = await attempted(make, "discarded", 9, args={"n": 2})
    assert f"#{other}" in (await client.get(f"/jobs/{bad}/compare?with={other}")).text
    assert (await client.get(f"/jobs/{bad}/compare?with=x")).status_code == 400
    assert (await client.get(f"/jobs/{bad}/compare?with=999999999")).status_code == 404
    assert (await client.get("/jobs/999999999/compare")).status_code == 404


async def test_secrets_stay_hidden(driver: Driver, make: Make) -> None:
    await attempted(make, "completed", 20, args={"password": "tulip", "n": 1})
    bad = await attempted(make, "discarded", 10, args={"password": "rose", "n": 2})
    config = DashboardConfig(redact_keys=("password",))
    app = create_app(driver, no_auth=True, config=config)
    async with browser(app) as client:
        text = (await client.get(f"/jobs/{bad}/compare")).text
    assert "tulip" not in text
    assert "rose" not in text
    assert "n" in parse(text).one("main").text
