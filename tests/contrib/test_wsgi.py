"""An ASGI app as one of WSGI: what it is told of a request, and what becomes of its answer."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import httpx2
import psycopg
import pytest

from riverui.contrib.wsgi import wsgi
from tests.operators import look_around
from tests.ports import free_port
from tests.test_proxies import running

PAGE = Path(__file__).parents[2] / "docs/dashboard/embedding.md"
OPS = httpx2.BasicAuth("ops", "a long password")


def begun(app: Any, body: bytes = b"", **environ: Any) -> tuple[list[Any], Any]:
    """Return what a WSGI app is going to say of its answer, and the answer's pieces."""
    told: list[Any] = []
    request: dict[str, Any] = {"PATH_INFO": "/", "QUERY_STRING": "", "SCRIPT_NAME": "", **environ}
    request["wsgi.input"] = io.BytesIO(body)
    setup_testing_defaults(request)

    def start(status: str, headers: list[tuple[str, str]], *rest: object) -> Any:
        told.extend((status, dict(headers)))

    return told, validator(app)(request, start)


def asked(app: Any, body: bytes = b"", **environ: Any) -> tuple[str, dict[str, str], bytes]:
    """Return status, headers and body of the answer of a WSGI app, whose protocol is checked."""
    told, answer = begun(app, body, **environ)
    try:
        whole = b"".join(answer)
    finally:
        answer.close()
    return *told, whole


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with what was sent, and tell what was asked."""
    read, more = b"", True
    while more:
        message = await receive()
        read += message["body"]
        more = message["more_body"]
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    places = {name: scope[name] for name in ("path", "root_path", "scheme", "query_string")}
    told = f"{places!a} {headers.get('host')} {headers.get('content-length')}".encode()
    kind = [(b"content-type", b"text/plain"), (b"x-told", told)]
    await send({"type": "http.response.start", "status": 201, "headers": kind})
    await send({"type": "http.response.body", "body": read})


def test_a_request_arrives_as_it_was_made() -> None:
    body = b"x" * 200_000
    status, headers, answer = asked(
        wsgi(echo),
        body + b"GET /next HTTP/1.1",
        CONTENT_LENGTH=str(len(body)),
        HTTP_HOST="shop.example",
        PATH_INFO="/jobs/ü".encode().decode("latin-1"),
        QUERY_STRING="q=kind%3Amail",
        REQUEST_METHOD="POST",
        SCRIPT_NAME="/riverui",
        **{"wsgi.url_scheme": "https"},
    )
    assert status == "201 Created"
    assert answer == body
    assert headers["x-told"] == ascii(
        {
            "path": "/riverui/jobs/ü",
            "root_path": "/riverui",
            "scheme": "https",
            "query_string": b"q=kind%3Amail",
        }
    ) + (f" shop.example {len(body)}")


def test_a_body_without_a_length_is_rejected() -> None:
    chunked = {"REQUEST_METHOD": "POST", "HTTP_TRANSFER_ENCODING": "chunked"}
    status, _, answer = asked(wsgi(echo), b"all of it", **chunked)
    assert status == "411 Length Required"
    assert b"Content-Length" in answer


def test_a_client_that_hangs_up_in_its_request_ends_it() -> None:
    cancelled = threading.Event()

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        try:
            await echo(scope, receive, send)
        finally:
            cancelled.set()

    body = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "200"}
    with pytest.raises(OSError, match="hung up"):
        asked(wsgi(reading), b"a part", **body)
    assert cancelled.wait(30)


def test_a_client_that_hangs_up_in_the_answer_ends_it() -> None:
    ended = threading.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        kind = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
        finally:
            ended.set()

    _, answer = begun(wsgi(endless))
    assert next(iter(answer)) == b"more"
    assert not ended.is_set()
    answer.close()
    assert ended.wait(30)


def test_an_odd_address_is_passed_on() -> None:
    odd: dict[str, Any] = {
        "PATH_INFO": "/jobs/\xff",
        "QUERY_STRING": "q=ü\x00&p=%C3%BC",
        "CONTENT_LENGTH": "",
    }
    _, headers, answer = asked(wsgi(echo), **odd)
    assert answer == b""
    assert "/jobs/\\ufffd" in headers["x-told"]
    assert "q=%FC%00&p=%C3%BC" in headers["x-told"]
    assert headers["x-told"].endswith("None")


def test_it_goes_on_in_a_process_that_was_forked() -> None:
    """As with `gunicorn --preload`, where a request was answered before the fork."""
    program = """
import os
from tests.contrib.test_wsgi import asked, echo
from riverui.contrib.wsgi import wsgi

app = wsgi(echo)
ask = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "2"}
assert asked(app, b"ok", **ask)[2] == b"ok"
child = os.fork()
if child == 0:
    os._exit(0 if asked(app, b"ok", **ask)[2] == b"ok" else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 0, done.stderr


def test_the_documented_flask_app_shows_the_dashboard(database_url: str, tmp_path: Path) -> None:
    part = PAGE.read_text(encoding="utf-8").partition("## In Flask and other WSGI apps")[2]
    code = re.search(r"```python\n(.*?)```", part, re.DOTALL)
    command = re.search(r"`gunicorn (--threads \d+ shop:app)`", part)
    assert code
    assert command
    shop = f"{code[1]}\napp.get('/')(lambda: 'the shop')\n"
    (tmp_path / "shop.py").write_text(shop, encoding="utf-8")
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into river_queue (name, updated_at) values ('default', now())")
    port = free_port()
    gunicorn = [str(Path(sys.executable).with_name("gunicorn")), "--workers", "2", "--preload"]
    words = ["--bind", f"127.0.0.1:{port}", "--chdir", str(tmp_path), *command[1].split()]
    site = f"http://127.0.0.1:{port}"
    with (
        running([*gunicorn, *words], port, DATABASE_URL=database_url),
        httpx2.Client(auth=OPS) as operator,
    ):
        assert httpx2.get(site).text == "the shop"
        assert httpx2.get(f"{site}/riverui/jobs").status_code == 401
        look_around(operator, f"{site}/riverui")
        assert "Overview" in operator.get(f"{site}/riverui", follow_redirects=True).text
