"""The test's database through a real PgBouncer."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.needs import need


@pytest.fixture
def bouncer_url(database_url: str, tmp_path: Path) -> Iterator[str]:
    """Yield the same database through a PgBouncer with two server connections."""
    program = need("PgBouncer")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    parts = conninfo_to_dict(database_url)
    server = " ".join(
        f"{name}={parts[name]}"
        for name in ("host", "port", "user", "password", "dbname")
        if parts.get(name)
    )
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\nriver = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port ="
        f" {port}\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nunix_socket_dir =\n"
        # Nothing is tidied up behind us between transactions.
        "server_reset_query =\n"
    )
    line = [program, str(settings)]
    if os.geteuid() == 0:
        # It does not run as root, and the server runs as nobody.
        for folder in (tmp_path, *tmp_path.parents):
            if folder == Path(gettempdir()):
                break
            folder.chmod(0o755)
        line += ["-u", "nobody"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=log)
    url = f"postgresql://anyone@127.0.0.1:{port}/river"
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                psycopg.connect(url, autocommit=True).close()
                break
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(
                        f"PgBouncer did not start: {(tmp_path / 'log').read_text()}", pytrace=False
                    )
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(10)
