"""The dashboard of `riverui serve`, as settings that can be sent to another process."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from starlette.applications import Starlette

from riverui.actions.new_jobs import JobInserter, LateInserter
from riverui.actions.pilot import JobPilot, LatePilot
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.failures import Failures
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig, ServeConfig
from riverui.web.http.context import AppOptions
from riverui.web.process_name import process_name

log = logging.getLogger("riverui")


@dataclass(frozen=True, kw_only=True)
class ServedDashboard:
    """The settings of one dashboard and of the server around it."""

    config: ServeConfig
    dashboard_config: DashboardConfig
    database_url: str | None
    """None leaves it to libpq's `PG*` variables."""
    hosts: frozenset[str] | None
    """The allowed host names; None for any."""
    schema: str | None
    database_url_read: str | None = None
    """A standby of the database, from which pages are read."""
    failures: tuple[Failures | None, Failures | None, Failures | None] = (None, None, None)
    """Counters of failed sign-ins that processes share; None for this process alone."""

    def build(self) -> tuple[Starlette, Driver]:
        """Return the dashboard, and the driver that it closes when it stops.

        Raise ConfigError for settings that are not valid.
        """
        config, name = self.config, process_name()

        def connected(url: str | None) -> Driver:
            return connect(
                url,
                action_timeout=self.dashboard_config.action_timeout,
                dashboard=name,
                page_timeout=self.dashboard_config.page_timeout,
                schema=self.schema,
            )

        driver = connected(self.database_url)
        read = self.database_url_read
        standby = None if read is None else connected(read)
        sign_in = SignIn(
            api_tokens=config.api_tokens,
            basic_auth=(config.basic_user, config.basic_password) if config.basic_user else None,
            failures=self.failures,
            htpasswd=config.htpasswd,
            no_auth=not config.for_people and (config.no_auth or config.api_tokens is None),
        )
        app = build_app(
            driver,
            sign_in,
            self.dashboard_config,
            pilot=LatePilot(plain_pilot),
            options=AppOptions(
                close_driver=True,
                close_standby=True,
                hosts=self.hosts,
                inserter=LateInserter(lambda: inserter(driver)),
                name=name,
                standalone=True,
                standby=standby,
                workers=config.workers,
            ),
        )
        return app, driver

    def log_missing_key(self) -> None:
        """Log the consequences if RIVERUI_SECRET_KEY is not set."""
        if self.dashboard_config.secret_key is None:
            log.info(
                "RIVERUI_SECRET_KEY is not set: viewers' preferences and open forms are lost when"
                " this process ends, and are not shared with other %s",
                "containers" if self.config.workers > 1 else "processes",
            )


def inserter(driver: Driver) -> JobInserter:
    """Return an inserter of jobs; loads the engine."""
    from riverui.engine.client import Client
    from riverui.engine.insert import job_inserter

    return job_inserter.JobInserter(Client(driver))


def plain_pilot() -> JobPilot:
    """Return the pilot of a dashboard without a client; loads the engine."""
    from riverui.engine import feature_list

    return feature_list.plain_pilot()
