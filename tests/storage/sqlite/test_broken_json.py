"""Jobs whose JSON another program has broken: the pages show them, and every search works."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import httpx2
import pytest

import riverui

_COLUMNS = ("args", "attempted_by", "errors", "metadata", "tags")


@pytest.mark.parametrize("text", ["not json", "[1", '["x"]', '[["x"]]', "5"])
async def test_one_broken_row_breaks_no_page(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.db"
    client = riverui.Client(f"sqlite:///{file}")
    await riverui.migrate(client.driver)
    job = (await client.insert(riverui.JsonArgs("whole", {"a": 1}))).job
    broken = (await client.insert(riverui.JsonArgs("broken", {"a": 1}))).job
    with sqlite3.connect(file) as connection:
        sets = ", ".join(f"{column} = :text" for column in _COLUMNS)
        connection.execute(
            f"update river_job set {sets} where id = :id", {"text": text, "id": broken.id}
        )
    app = riverui.create_app(client.driver, no_auth=True)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as page:
        for path in ("/", f"/jobs/{broken.id}", "/jobs", "/jobs?q=broken", "/jobs?q=tag:x"):
            assert (await page.get(path)).status_code == 200, path
        for search in ("error:x", "worker:x", "metadata.a:1"):
            assert (await page.get("/jobs", params={"q": search})).status_code == 200, search
        found = await page.get("/jobs", params={"q": "args.a:1"})
        assert f"/jobs/{job.id}" in found.text
        assert f"/jobs/{broken.id}" not in found.text
    await app.state.dashboard.close()
    listed = await client.job_list(riverui.JobListParams(tags_all=["none"]))
    assert not listed.jobs
    assert (await client.job_cancel(broken.id)).state == "cancelled"
