"""What an operator does with a dashboard that is served somewhere, whatever serves it."""

from __future__ import annotations

import re

import httpx2


def look_around(operator: httpx2.Client, dashboard: str, *, origin: str | None = None) -> str:
    """Open the completed jobs, see that every link leads into the dashboard, and press a button.

    Return the page of jobs. `origin` is what a browser would send, that of the URL unless given.
    """
    base = httpx2.URL(dashboard).path.rstrip("/")
    page = operator.get(f"{dashboard}/jobs?state=completed").raise_for_status().text
    links = set(re.findall(r'(?:href|src|action)="(/[^"#]*)', page))
    assert links
    assert all(link.startswith(f"{base}/") for link in links), links
    for asset in (link for link in links if link.partition("?")[0].endswith((".css", ".js"))):
        operator.get(httpx2.URL(dashboard).join(asset)).raise_for_status()

    # Pages of other sites cannot press it.
    pause, default = f"{dashboard}/queues/pause", {"name": "default"}
    foreign = {"Origin": "https://evil.example"}
    assert operator.post(pause, data=default, headers=foreign).status_code == 403
    own = {"Origin": origin or str(httpx2.URL(dashboard).join("/")).rstrip("/")}
    done = operator.post(pause, data=default, headers=own)
    assert done.status_code == 303
    assert done.headers["Location"].startswith(f"{base}/queues"), done.headers["Location"]
    paused = operator.get(f"{dashboard}/api/queues/default").raise_for_status().json()
    assert paused["paused_at"] is not None
    return page
