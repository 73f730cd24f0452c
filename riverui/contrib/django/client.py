"""Clients of a Django project: one inserts through Django's connections, the other works jobs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache, partial
from logging.config import dictConfig
from typing import Any, Unpack, cast

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils.asyncio import async_unsafe
from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import autodiscover_modules

from riverui.contrib.django.config import river_settings
from riverui.engine.args.job_args import JobArgs
from riverui.engine.client import Client
from riverui.engine.insert.insert_opts import InsertKeywords, InsertManyParams, InsertOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.workers import Workers
from riverui.errors import DatabaseError
from riverui.storage.connect import connect_sync
from riverui.storage.interface import Transaction
from riverui.storage.interface.engine_params import InsertResult

log = logging.getLogger("riverui.worker")


class DjangoDriver:
    """A SyncDriver of one of Django's databases: uses this thread's connection and its open
    transaction.
    """

    is_synchronous = True

    def __init__(self, using: str, schema: str | None) -> None:
        self._using = using
        # Only adopts connections, so it never opens one.
        self._driver = connect_sync(river_settings().url, schema=schema)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the adopting driver."""
        return getattr(self._driver, name)

    @asynccontextmanager
    async def transaction(
        self,
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109 - of the protocol
    ) -> AsyncIterator[Transaction]:
        """Begin a transaction, or join the open one. Django's connection sets the time limits."""
        connection = _connection(self._using)
        if not connection.in_atomic_block:
            with transaction.atomic(using=self._using):
                yield await self._driver.adopt(connection)
            return
        try:
            yield await self._driver.adopt(connection)
        except DatabaseError:
            # The transaction is aborted: mark it for rollback, as Django's models do.
            connection.needs_rollback = True
            raise

    autocommit = transaction

    async def adopt(self, transaction: object) -> Transaction:
        """Return the operations inside the caller's own transaction."""
        return await self._driver.adopt(transaction)

    def close(self) -> None:
        """Do nothing: the connections are Django's."""


@async_unsafe(  # type: ignore[untyped-decorator]
    "Django's connection cannot be used in asynchronous code: await ainsert(args), or call this by"
    " sync_to_async."
)
def _connection(using: str) -> Any:
    return connections[using]


def sync_client(using: str | None = None) -> SyncClient:
    """Return a client on Django's connection of that alias, by default that of the settings.

    It works inside the connection's open transaction.
    """
    return _sync_client(using or river_settings().database)


@cache
def _sync_client(using: str) -> SyncClient:
    config = river_settings().client_config()
    return SyncClient(DjangoDriver(using, config.schema), config)


client = cast(SyncClient, SimpleLazyObject(sync_client))
"""The client on the database of the settings, created at its first use."""


def insert(
    args: JobArgs,
    insert_opts: InsertOpts | None = None,
    *,
    using: str | None = None,
    **keywords: Unpack[InsertKeywords],
) -> InsertResult:
    """Insert a job through Django's connection, as a part of the open `transaction.atomic()`.

    Options are InsertOpts or keywords, such as `queue="mail"`. `using` is an alias of the same
    database instead of that of the settings.
    """
    return sync_client(using).insert(args, insert_opts, **keywords)


def insert_many(
    jobs: Iterable[JobArgs | InsertManyParams], *, using: str | None = None
) -> Sequence[InsertResult]:
    """Insert jobs, all or none; see insert."""
    return sync_client(using).insert_many(jobs)


def insert_on_commit(
    args: JobArgs,
    insert_opts: InsertOpts | None = None,
    *,
    using: str = DEFAULT_DB_ALIAS,
    **keywords: Unpack[InsertKeywords],
) -> None:
    """Insert a job once the open transaction of the alias `using` has committed, at once without
    one.

    For rows in another database than River's: if the process ends between the two, the job is
    lost. If both are in one database, `insert` is safer.
    """
    transaction.on_commit(partial(insert, args, insert_opts, **keywords), using=using)


async def ainsert(
    args: JobArgs,
    insert_opts: InsertOpts | None = None,
    *,
    using: str | None = None,
    **keywords: Unpack[InsertKeywords],
) -> InsertResult:
    """Insert a job from asynchronous code, through the connection of Django's `a…` methods."""
    return await sync_to_async(insert)(args, insert_opts, using=using, **keywords)


async def ainsert_many(
    jobs: Iterable[JobArgs | InsertManyParams], *, using: str | None = None
) -> Sequence[InsertResult]:
    """Insert jobs, all or none, from asynchronous code; see ainsert."""
    return await sync_to_async(insert_many)(list(jobs), using=using)


def worker_client() -> Client:
    """Return a client that works the project's jobs, for `riverui worker`.

    Set up Django if necessary. Raise ConfigError for settings that are not valid.
    """
    if not apps.ready:
        django.setup()
    found, workers = river_settings(), discover()
    if not workers.kinds:
        names = " or ".join(f"{name}.py" for name in found.tasks_modules)
        log.warning("no workers were found in %s of the installed apps", names)
    return Client(found.url, found.client_config(workers=workers))


def _forget(*, setting: str, **others: object) -> None:
    if setting == "RIVERUI":
        _sync_client.cache_clear()


setting_changed.connect(_forget, dispatch_uid="riverui.contrib.django.client")

workers = Workers()
"""The workers that the apps of the project register."""


def discover() -> Workers:
    """Import the `tasks` and `jobs` of all installed apps, and return the registered workers."""
    autodiscover_modules(*river_settings().tasks_modules)
    return workers


def command_client() -> Client:
    """Return the client of `manage.py riverui_worker`, with the project's log handlers.

    If LOGGING configures `root`, that applies to the worker as well; otherwise riverui formats its
    lines.
    """
    made = worker_client()
    logging_config = settings.LOGGING
    loggers = logging_config.get("loggers", {})
    if "root" in logging_config or "" in loggers:
        # The command line has replaced the handlers.
        dictConfig({**logging_config, "disable_existing_loggers": False})
    elif "django" not in loggers:
        # Django's console handler, for `runserver`, would print its lines twice.
        django = logging.getLogger("django")
        for handler in django.handlers[:]:
            if type(handler) is logging.StreamHandler:
                django.removeHandler(handler)
    return made
