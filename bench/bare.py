"""The page to beat: Starlette, Jinja2 and one SQL query, 100 jobs in a table, and nothing else.

`BENCH_DATABASE_URL` names the database and `BENCH_BYTES` how long the page is to be: what the same
jobs take less in this plain table is made up by fixed text, so that both pages send the same number
of bytes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jinja2
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

_SQL = """
select id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at,
priority,
  left(args::text, 200) as args, kind, queue, tags
from river_job order by id desc limit 100
"""
_PAGE = """<!doctype html><title>jobs</title><table>
{% for job in jobs -%}
<tr><td><a href="/jobs/{{ job.id }}">{{ job.id }}</a><td>{{ job.state }}<td>{{ job.kind }}
<td>{{ job.queue }}
<td>{{ job.args }}<td>{{ job.attempt }}/{{ job.max_attempts }}<td>{{ job.priority }}
<td>{% for tag in job.tags %}<i>{{ tag }}</i>{% endfor %}<td>{{ job.created_at }}
<td>{{ job.scheduled_at }}
<td>{{ job.attempted_at }}<td>{{ job.finalized_at }}{{ filler }}
{% endfor %}</table>
"""


async def _jobs(request: Request) -> Response:
    async with request.app.state.pool.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        jobs = await (await cursor.execute(_SQL)).fetchall()
    html = request.app.state.template.render(jobs=jobs, filler=request.app.state.filler)
    if request.query_params.get("measure"):
        missing = max(0, int(os.environ["BENCH_BYTES"]) - len(html.encode()))
        request.app.state.filler = "x" * (missing // 100)
    return HTMLResponse(html)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    url = os.environ["BENCH_DATABASE_URL"]
    async with AsyncConnectionPool(
        url, min_size=1, max_size=5, kwargs={"autocommit": True}
    ) as pool:
        app.state.pool = pool
        app.state.filler = ""
        app.state.template = jinja2.Environment(autoescape=True).from_string(_PAGE)
        yield


app = Starlette(routes=[Route("/jobs", _jobs)], lifespan=_lifespan)


async def empty(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer nothing: what remains is the cost of the server."""
    if scope["type"] == "http":
        await Response()(scope, receive, send)
