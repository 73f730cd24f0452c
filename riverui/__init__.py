"""River UI for Python: `create_app` gives the dashboard as an ASGI app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool
    from starlette.applications import Starlette

    from riverui.config import DashboardConfig
    from riverui.storage.interface import Driver
    from riverui.web.access import Access, Authenticate

__version__ = "0.1.0"
__all__ = ["Access", "DashboardConfig", "__version__", "create_app"]


def create_app(
    database: str | AsyncConnectionPool[Any] | Driver | None = None,
    *,
    schema: str | None = None,
    config: DashboardConfig | None = None,
    authenticate: Authenticate | None = None,
    basic_auth: tuple[str, str] | None = None,
    htpasswd: Path | str | None = None,
    no_auth: bool = False,
    hosts: frozenset[str] | None = None,
) -> Starlette:
    """The dashboard of a River database as an ASGI app, to be served alone or mounted under any prefix.

    `database` is a URL, the host app's psycopg AsyncConnectionPool (never closed from here), or a Driver;
    None leaves it to libpq's `PG*` variables. It is reached at first use, so the app needs no lifespan; where
    one does reach it, its end closes connections that riverui opened.

    Who may use it has to be said: `authenticate` (a function from Starlette's HTTPConnection to an Access, to
    None for nobody, or to a Response to send instead), `basic_auth` (user and password), `htpasswd` (a file),
    or `no_auth` where the app around it already decides. ConfigError tells what cannot be used.
    """
    from psycopg_pool import AsyncConnectionPool

    from riverui.config import DashboardConfig
    from riverui.storage.connect import connect
    from riverui.web import app

    config = config or DashboardConfig()
    driver: Driver
    if database is None or isinstance(database, str | AsyncConnectionPool):
        driver = connect(
            database if isinstance(database, str) else None,
            action_timeout=config.action_timeout,
            page_timeout=config.page_timeout,
            pool=database if isinstance(database, AsyncConnectionPool) else None,
            schema=schema,
        )
    else:
        driver = database
    return app.create_app(
        driver,
        config=config,
        authenticate=authenticate,
        basic_auth=basic_auth,
        htpasswd=htpasswd,
        no_auth=no_auth,
        hosts=hosts,
        close_driver=driver is not database,
    )


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that `import riverui` stays quick for programs that want only a part of it.
    if name == "Access":
        from riverui.web.access import Access

        return Access
    if name == "DashboardConfig":
        from riverui.config import DashboardConfig

        return DashboardConfig
    raise AttributeError(f"module 'riverui' has no attribute {name!r}")
