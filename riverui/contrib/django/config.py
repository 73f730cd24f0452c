"""The settings of a Django project: `RIVERUI = {…}` in its settings.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.crypto import salted_hmac
from django.utils.module_loading import import_string
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.storage.options import check_schema
from riverui.web.config import DashboardConfig

_OWN = frozenset({"queues", "schema", "workers"})
"""Fields of ClientConfig that come from other settings."""
_TEXTS = frozenset({"id", "release"})
"""Fields of ClientConfig whose strings are not dotted paths."""
_DOTTED_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@dataclass(frozen=True, kw_only=True)
class RiverSettings:
    """The settings in `RIVERUI`; raises ConfigError with the name of one that is not valid."""

    database: str = DEFAULT_DB_ALIAS
    """The alias of the database with River's tables."""
    schema: str | None = None
    """The schema of these tables; by default the search path's."""
    own_tables: bool = True
    """Whether `manage.py migrate` creates riverui's own tables as well."""
    queues: Mapping[str, Any] = field(default_factory=lambda: {"default": 10})
    """By queue: jobs at once in each process, a dict of QueueConfig's fields, or a QueueConfig."""
    tasks_modules: Sequence[str] = ("tasks", "jobs")
    """Modules of the installed apps that are searched for workers."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ClientConfig; a string is the dotted path of a value."""
    dashboard: Mapping[str, Any] = field(default_factory=dict)
    """Fields of DashboardConfig."""
    dashboard_access: str | Callable[..., Any] = "riverui.contrib.django.access.staff"
    """A function that returns the rights of a Django request, or its dotted path."""
    api_tokens: str | Path | None = None
    """Lines of API tokens, or the Path of a file of them."""

    def __post_init__(self) -> None:
        if self.database not in settings.DATABASES:
            known = ", ".join(repr(alias) for alias in settings.DATABASES)
            raise ConfigError(f"DATABASE: {self.database!r} is not in DATABASES: {known}")
        vendor = connections[self.database].vendor
        if vendor not in ("postgresql", "sqlite"):
            raise ConfigError(
                f"DATABASE: {self.database!r} is {vendor}: River's tables need PostgreSQL or SQLite"
            )
        if vendor == "sqlite" and self.schema:
            raise ConfigError("SCHEMA: SQLite has no schemas")
        try:
            check_schema(self.schema)
        except ConfigError as error:
            raise ConfigError(f"SCHEMA: {error}") from None
        if isinstance(self.tasks_modules, str):
            raise ConfigError("TASKS_MODULES: give a list of names of modules")
        self._check_names("OPTIONS", self.options, ClientConfig, without=_OWN)
        self._check_names("DASHBOARD", self.dashboard, DashboardConfig)

    @property
    def url(self) -> str:
        """Return the URL of Django's SQLite file, or libpq's connection string of its database; in
        tests those of the test database.
        """
        connection = connections[self.database]
        if connection.vendor == "sqlite":
            return f"sqlite:///{quote(str(connection.settings_dict['NAME']))}"
        known = {option.keyword.decode() for option in Conninfo.get_defaults()}
        parameters = {
            name: value
            for name, value in connection.get_connection_params().items()
            if name in known and value not in (None, "")
        }
        if role := connection.settings_dict["OPTIONS"].get("assume_role"):
            parameters["options"] = f"{parameters.get('options', '')} -c role={role}".strip()
        return make_conninfo("", **parameters)

    def client_config(self, *, workers: Workers | None = None) -> ClientConfig:
        """Return a client's configuration: with `workers` for all queues, else only for inserts.

        Raise ConfigError with the name of a setting that is not valid.
        """
        options = dict(self._resolved())
        if workers is None:
            # Do not import what only workers need.
            options = {name: options[name] for name in options if name not in ("periodic_jobs",)}
        try:
            config = ClientConfig(schema=self.schema, workers=workers, **options)
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"OPTIONS: {error}") from error
        return config if workers is None else replace(config, queues=dict(self._queue_configs()))

    def dashboard_config(self) -> DashboardConfig:
        """Return the dashboard's configuration; raise ConfigError if it is not valid."""
        # The same in all processes, so that each accepts cookies of the others.
        key = salted_hmac("riverui.contrib.django", "cookies", algorithm="sha256").hexdigest()
        try:
            return DashboardConfig(**{"secret_key": key, **self.dashboard})
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"DASHBOARD: {error}") from error

    def access(self) -> Callable[..., Any]:
        """Return the function that returns rights; raise ConfigError if it cannot be imported."""
        found = self.dashboard_access
        resolved = _imported("DASHBOARD_ACCESS", found) if isinstance(found, str) else found
        if not callable(resolved):
            raise ConfigError("DASHBOARD_ACCESS: give a function, or its dotted path")
        return resolved

    def _queue_configs(self) -> Iterator[tuple[str, QueueConfig]]:
        for name, given in self.queues.items():
            try:
                if isinstance(given, Mapping):
                    given = QueueConfig(**given)
                elif not isinstance(given, QueueConfig):
                    given = QueueConfig(max_workers=given)
            except (ConfigError, TypeError) as error:
                raise ConfigError(f"QUEUES: {name!r}: {error}") from error
            yield name, given

    def _resolved(self) -> Iterator[tuple[str, Any]]:
        for name, value in self.options.items():
            if isinstance(value, str) and name not in _TEXTS:
                if not _DOTTED_PATH.fullmatch(value):
                    raise ConfigError(
                        f"OPTIONS: {name}: a text is the dotted path of a value, and {value!r} is"
                        " none: give the value itself, such as timedelta(seconds=30)"
                    )
                value = _imported(f"OPTIONS: {name}", value)
            yield name, value

    def check(self) -> None:
        """Raise ConfigError for errors that otherwise appear only when a setting is used."""
        self.client_config(workers=Workers())
        self.dashboard_config()
        self.access()
        if self.api_tokens is not None:
            # Loads the dashboard, which a worker does not need.
            from riverui.web.auth.tokens import Tokens

            try:
                Tokens(self.api_tokens)
            except ConfigError as error:
                raise ConfigError(f"API_TOKENS: {error}") from error

    @staticmethod
    def _check_names(
        setting: str, given: object, of: type[Any], *, without: frozenset[str] = frozenset()
    ) -> None:
        if not isinstance(given, Mapping):
            raise ConfigError(f"{setting}: give a dict")
        known = {each.name for each in fields(of)} - without
        for name in given:
            if name not in known:
                raise ConfigError(f"{setting}: {_unknown(name, known)}")


@cache
def river_settings() -> RiverSettings:
    """Return the settings; raise ConfigError, which names `RIVERUI`, if they are not valid."""
    given = getattr(settings, "RIVERUI", {})
    if not isinstance(given, Mapping):
        raise ConfigError("RIVERUI must be a dict.")
    known = {each.name.upper() for each in fields(RiverSettings)}
    for name in given:
        if name not in known:
            raise ConfigError(f"RIVERUI: {_unknown(name, known)}")
    try:
        return RiverSettings(**{name.lower(): value for name, value in given.items()})
    except ConfigError as error:
        raise ConfigError(f"RIVERUI: {error}") from None


def _unknown(name: object, known: set[str]) -> str:
    close = get_close_matches(str(name), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
    return f"there is no setting {name!r}; {hint}"


def _imported(setting: str, path: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise ConfigError(f"{setting}: {error}") from error


def _forget(*, setting: str, **others: object) -> None:
    if setting in ("RIVERUI", "DATABASES", "SECRET_KEY"):
        river_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="riverui.contrib.django.config")
