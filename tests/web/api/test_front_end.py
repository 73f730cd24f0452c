"""What River UI's own pages asked of the API in one run through all that they can do, asked again.

`front_end_requests.json` is written by tests/interop/test_front_end.py, which drives the pages
themselves (its docstring says what the folder must hold):

    RIVER_UI_SOURCE=… RIVER_UI_RECORD=1 make test ARGS=tests/interop/test_front_end.py

Each line is a request as the browser sent it, with the status and outline of its answer, and what
it changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from riverui.web.http.counts import CountLimits
from riverui.web.limits import DashboardLimits
from tests.factory import Make
from tests.river_ui_stage import difference, fill, outline, picture
from tests.web.stand_ins import browser

RECORDED: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("front_end_requests.json").read_text(encoding="utf-8")
)


# However busy the machine is, counting a hundred jobs is cheap.
@pytest.mark.parametrize(
    "dashboard_limits", [DashboardLimits(counts=CountLimits(cheap_seconds=10))]
)
async def test_what_its_pages_ask_is_answered_and_done(app: Starlette, make: Make) -> None:
    await fill(make.connection)
    async with browser(app) as client:
        for asked in RECORDED:
            told = f"{asked['method']} {asked['path']}"
            headers = {**asked["headers"]}
            if headers.get("origin") == "own":
                headers["origin"] = "http://river.test"
            before = await picture(make.connection)
            content = asked["body"].encode()
            answer = await client.request(
                asked["method"], asked["path"], content=content, headers=headers
            )
            assert answer.status_code == asked["status"], (told, answer.text)
            assert answer.headers["content-type"] == "application/json; charset=utf-8", told
            assert outline(answer.json()) == asked["answer"], told
            changes = difference(before, await picture(make.connection))
            assert changes == asked.get("changes", {}), told


def test_the_run_was_a_whole_one() -> None:
    changes = {
        (asked["method"], asked["path"]): asked for asked in RECORDED if asked["method"] != "GET"
    }
    for verb in ("cancel", "delete", "retry"):
        asked = changes["POST", f"/api/jobs/{verb}"]
        # As browsers send a text that no script named the kind of.
        assert asked["headers"]["content-type"] == "text/plain;charset=UTF-8"
        assert asked["headers"]["origin"] == "own"
    assert {path for method, path in changes if method == "PUT"} == {
        f"/api/queues/{name}/{verb}"
        for name in ("default", "shipping")
        for verb in ("pause", "resume")
    }
    assert ("PATCH", "/api/queues/shipping") in changes
    assert {path for _, path in changes if "workflows" in path} == {
        "/api/pro/workflows/wf_1/cancel",
        "/api/pro/workflows/wf_1/retry",
    }
    assert ("POST", "/api/pro/dead-letter-jobs/110/retry") in changes
    paths = {asked["path"] for asked in RECORDED}
    lists = {path for path in paths if path.startswith("/api/jobs?")}
    dead = {path for path in paths if path.startswith("/api/pro/dead-letter-jobs?")}
    for part in ("ids=", "kinds=", "priorities=", "queues=", "tags=", "limit=40"):
        assert any(part in path for path in lists), part
        assert any(part in path for path in dead), part
    assert any("limit=60" in path for path in lists)
    for facet in ("job_kind", "queue_name"):
        named = f"/api/pro/dead-letter-jobs/autocomplete?facet={facet}&"
        assert any(path.startswith(named) for path in paths), facet
