"""Holds an embedded Postgres until its standard input ends, for tests that kill it: `hold.py
DIR`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg

from riverui.demo.postgres import EmbeddedPostgres


def main() -> None:
    """Print the server's address and who it takes itself for."""
    with EmbeddedPostgres(Path(sys.argv[1]), durable=False) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("create table if not exists visits (at timestamptz default now())")
            connection.execute("insert into visits default values")
            visits = connection.execute("select count(*) from visits").fetchone()
        print(server.url, *(visits or ()), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
