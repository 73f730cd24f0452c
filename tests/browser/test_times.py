"""The browser keeps times going in the words of tests/times.json, which the server is held to as
well.
"""

from __future__ import annotations

import itertools

import pytest
from playwright.async_api import Page

from tests.browser.conftest import LOOP, NewPage, Site
from tests.time_vectors import TimeVector, time_vectors

pytestmark = [pytest.mark.browser, LOOP]

WRITE = """async ([cases]) => {
  // A module by itself, as it stands in static/: imports are the browser's own here.
  const { clock, relative, since } = await import("/static/x/js/times.js");
  const write = {
    relative: (at, now) => relative(at, now, false),
    fine: (at, now) => relative(at, now, true),
    since,
    utc: (at, now) => clock(at, now, true),
    local: (at, now) => clock(at, now, false),
  };
  return cases.map(({ mode, at, now }) => write[mode](at, now));
}"""


def _milliseconds(case: TimeVector) -> dict[str, object]:
    return {
        "mode": case.mode,
        "at": round(case.at.timestamp() * 1000),
        "now": round(case.now.timestamp() * 1000),
    }


async def test_times_read_as_in_the_vectors(site: Site, new_page: NewPage) -> None:
    vectors = sorted(time_vectors(), key=lambda case: case.zone)
    for zone, group in itertools.groupby(vectors, key=lambda case: case.zone):
        cases = list(group)
        page = await new_page(timezone_id=zone)
        await page.goto("/about")
        written = await page.evaluate(WRITE, [[_milliseconds(case) for case in cases]])
        wrong = [
            (case, text) for case, text in zip(cases, written, strict=True) if text != case.text
        ]
        assert not wrong, zone


async def test_the_modules_load_one_by_one_as_well_as_in_one(site: Site, page: Page) -> None:
    """Loaded as they stand, the browser checks every name that they import from each other."""
    await page.goto("/about")
    names = await page.evaluate("async () => Object.keys(await import('/static/x/js/app.js'))")
    assert names == []
