"""Behind nginx and Caddy with the configurations of docs/dashboard/embedding.md: at the root, below
a path, and with the path stripped.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.needs import need
from tests.operators import look_around
from tests.ports import free_port
from tests.worker.conftest import wait_for

DOCS = Path(__file__).parent.parent / "docs/dashboard/embedding.md"
BLOCK = re.compile(r"^```(nginx|caddyfile)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NGINX_BESIDE, NGINX, CADDY, CADDY_BELOW, CADDY_WITHOUT = (
    text for _, text in BLOCK.findall(DOCS.read_text(encoding="utf-8"))
)
NGINX_BELOW = NGINX.replace("location / {", "location /river/ {")
NGINX_WITHOUT = NGINX_BELOW.replace(":8080;", ":8080/;").replace('Prefix "";', "Prefix /river;")
OPS = httpx2.BasicAuth("ops", "a long password")


@contextmanager
def running(command: Sequence[str | Path], port: int, **environ: str) -> Iterator[None]:
    """Run a server until the end of the block, which begins when it listens."""
    process = subprocess.Popen(
        command,
        env={"PATH": os.environ["PATH"], **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def listens() -> bool:
        assert process.poll() is None, process.stdout and process.stdout.read()
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(listens)
        yield
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


def nginx(server: str, port: int, folder: Path) -> list[str | Path]:
    """Return the command by which nginx runs with this server on the port."""
    config = folder / "nginx.conf"
    places = "".join(
        f"{what}_temp_path {folder}/{what};\n"
        for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    server = server.replace("listen 80;", f"listen 127.0.0.1:{port};")
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{server}}}\n",
        encoding="utf-8",
    )
    return [need("nginx"), "-c", config, "-e", "stderr"]


def caddy(site: str, port: int, folder: Path) -> list[str | Path]:
    """Return the command by which Caddy runs with this site on the port."""
    config = folder / "Caddyfile"
    site = site.replace("jobs.example", f"http://jobs.example:{port}")
    config.write_text(f"{{\n\tadmin off\n}}\n{site}", encoding="utf-8")
    return [need("Caddy"), "run", "--config", config, "--adapter", "caddyfile"]


@pytest.mark.parametrize(
    ("proxy", "text", "prefix", "base"),
    [
        pytest.param(nginx, NGINX, "", "", id="nginx"),
        pytest.param(nginx, NGINX_BELOW, "/river", "/river", id="nginx, below a path"),
        pytest.param(nginx, NGINX_WITHOUT, "", "/river", id="nginx, path taken off"),
        pytest.param(caddy, CADDY, "", "", id="Caddy"),
        pytest.param(caddy, CADDY_BELOW, "/river", "/river", id="Caddy, below a path"),
        pytest.param(caddy, CADDY_WITHOUT, "", "/river", id="Caddy, path taken off"),
    ],
)
def test_an_operator_looks_around_and_presses_a_button_through_a_proxy(
    proxy: Callable[[str, int, Path], list[str | Path]],
    text: str,
    prefix: str,
    base: str,
    database_url: str,
    tmp_path: Path,
) -> None:
    port, behind = free_port(), free_port()
    command = [sys.executable, "-m", "riverui", "--host", "127.0.0.1", "--port", str(behind)]
    command += ["--trust-proxy", *(["--prefix", prefix] if prefix else [])]
    environ = {
        "DATABASE_URL": database_url,
        "RIVER_BASIC_AUTH_USER": "ops",
        "RIVER_BASIC_AUTH_PASS": "a long password",
    }
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into river_queue (name, updated_at) values ('default', now())")
    host = f"jobs.example:{port}"
    with (
        running(command, behind, **environ),
        running(proxy(text.replace("8080", str(behind)), port, tmp_path), port, HOME=str(tmp_path)),
        httpx2.Client(auth=OPS, headers={"Host": host}) as operator,
    ):
        site = f"http://127.0.0.1:{port}"
        look_around(operator, f"{site}{base}", origin=f"http://{host}")
        if base:
            # As people type it.
            begin = operator.get(f"{site}{base}")
            assert begin.is_redirect
            assert httpx2.URL(begin.headers["Location"]).path.startswith(base)


def test_app_and_dashboard_under_one_address(database_url: str, tmp_path: Path) -> None:
    port, app, dashboard = free_port(), free_port(), free_port()
    (tmp_path / "index.html").write_text("the shop", encoding="utf-8")
    serve = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(app)]
    told = re.search(r"`riverui (--host 127.0.0.1 .* --prefix /riverui)`", DOCS.read_text("utf-8"))
    assert told
    riverui = [sys.executable, "-m", "riverui", *told[1].replace("8080", str(dashboard)).split()]
    config = NGINX_BESIDE.replace("8000", str(app)).replace("8080", str(dashboard))
    environ = {
        "DATABASE_URL": database_url,
        "RIVER_BASIC_AUTH_USER": "ops",
        "RIVER_BASIC_AUTH_PASS": "a long password",
    }
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into river_queue (name, updated_at) values ('default', now())")
    host = f"shop.example:{port}"
    with (
        running([*serve, "--directory", tmp_path], app),
        running(riverui, dashboard, **environ),
        running(nginx(config, port, tmp_path), port),
        httpx2.Client(auth=OPS, headers={"Host": host}) as operator,
    ):
        assert operator.get(f"http://127.0.0.1:{port}/").text == "the shop"
        look_around(operator, f"http://127.0.0.1:{port}/riverui", origin=f"http://{host}")
