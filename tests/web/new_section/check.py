"""Walks through the dashboard of a package that has the section of notes; run in a process of its
own.
"""

from __future__ import annotations

import asyncio

import riverui
from riverui.web.auth.rights import EVERYTHING, READ_ONLY, RIGHTS
from riverui.web.http import prometheus
from tests.web.stand_ins import DeadDriver, browser


def dashboard(*rights: str) -> riverui.Access:
    """Return who holds these rights, every right where none is named."""
    return riverui.Access(rights=frozenset(rights)) if rights else riverui.Access()


async def check() -> None:
    """Raise AssertionError where a part of the section is missing."""
    assert RIGHTS["notes.read"] == "see notes"
    assert "notes.read" in EVERYTHING & READ_ONLY
    app = riverui.create_app(DeadDriver(), no_auth=True)
    async with browser(app, root_path="/river") as client:
        page = await client.get("/notes")
        assert page.status_code == 200, page.text
        assert '<p><a href="/river/notes">&lt;nothing&gt;</a></p>' in page.text
        entry = 'href="/river/notes" title="Notes (g n)" data-keys="g n" data-section="notes"'
        assert f'{entry} aria-current="page"' in page.text
        found = await client.get("/jobs", headers={"Accept": "text/html"})
        assert entry in found.text, "every page leads there"
        told = (await client.get("/help")).text
        assert "<kbd>n</kbd></dt><dd>a new note</dd>" in told
        assert "<kbd>g</kbd><kbd>n</kbd></dt><dd>notes</dd>" in told
        missing = await client.get("/notes/7")
        assert missing.status_code == 404
        assert '<a class="button" href="/river/notes">Notes</a>' in missing.text
        slash = await client.get("/notes/")
        assert (slash.status_code, slash.headers["location"]) == (307, "/river/notes")
        assert (await client.post("/notes")).headers["allow"] == "GET, HEAD"
        assert (await client.get("/api/notes")).json() == {"data": ["a note"]}
        document = (await client.get("/api/openapi.json")).json()
        assert document["paths"]["/api/notes"]["get"]["x-right"] == "notes.read"
        assert "data" in document["components"]["schemas"]["Notes"]["properties"]
    metrics = app.state.dashboard.metrics
    app.state.dashboard.counts.expire()
    assert b'route="notes.index"' in await prometheus.text(metrics, {})
    await app.state.dashboard.close()

    others = sorted(EVERYTHING - {"notes.read"})
    app = riverui.create_app(DeadDriver(), authenticate=lambda asking: dashboard(*others))
    async with browser(app) as client:
        refused = await client.get("/notes")
        assert refused.status_code == 403
        assert "You may not see notes." in refused.text
        assert 'data-section="notes"' not in refused.text
        assert (await client.get("/api/notes")).status_code == 403
    await app.state.dashboard.close()


if __name__ == "__main__":
    asyncio.run(check())
