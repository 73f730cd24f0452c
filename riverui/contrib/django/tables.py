"""River's tables in Django's databases: the operation of its migrations, fields, and support for
tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core import mail
from django.db import DatabaseError, connections, models, router, transaction
from django.db.migrations.operations.base import Operation

from riverui.contrib.django.config import river_settings
from riverui.errors import MigrationError
from riverui.storage.connect import (
    migration_texts,
    migrations,
    prepare_sqlite,
    sqlite_json_text,
)
from riverui.storage.interface.migrations import Direction, MigrationTexts
from riverui.storage.migrations import migration_scripts

OWN_LINE = "riverui"
"""The line of migrations of riverui's own tables; River's is `main`."""


class RiverMigrations(Operation):  # type: ignore[misc]  # Django comes without types
    """Migrate one line of River's migrations from a version to another, 0 being before the first.

    Applied versions are skipped. Versions are recorded in `river_migration`, so that River's own
    tools see them.
    """

    reversible = True
    reduces_to_sql = True

    def __init__(self, line: str, *, since: int, to: int) -> None:
        self.line = line
        self.since = since
        self.to = to

    def state_forwards(self, app_label: str, state: object) -> None:
        """Do nothing: these tables are not models."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: object, to_state: object
    ) -> None:
        """Run the versions up to `to` that are not applied."""
        self._migrate(app_label, schema_editor, "up")

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: object, to_state: object
    ) -> None:
        """Roll back the applied versions after `since`."""
        self._migrate(app_label, schema_editor, "down")

    def describe(self) -> str:
        """Return the description of the operation."""
        return f"River's migrations of the line {self.line} up to {self.to:03}"

    def _migrate(self, app_label: str, editor: Any, direction: Direction) -> None:
        chosen = river_settings()
        alias = editor.connection.alias
        if alias != chosen.database or not router.allow_migrate(alias, app_label):
            return
        if self.line == OWN_LINE and not chosen.own_tables:
            return
        texts = migration_texts(chosen.url, schema=chosen.schema)
        versions = self._versions(editor, texts, direction)
        source = migrations(chosen.url)
        scripts = migration_scripts(
            source, texts, versions, direction, line=self.line, schema=chosen.schema
        )
        for script in [texts.opening(), *scripts] if scripts else ():
            for statement in editor.connection.ops.prepare_sql_script(script):
                editor.execute(statement, None)

    def _versions(self, editor: Any, texts: MigrationTexts, direction: Direction) -> Sequence[int]:
        """Return the versions to run, in order."""
        known = migrations(river_settings().url).versions(self.line)
        own = [version for version in known if self.since < version <= self.to]
        if self.line == OWN_LINE and editor.connection.vendor == "sqlite":
            # SQLite's versions have numbers of their own: all come with any migration of the line,
            # go with the first, and are shown with it.
            up = direction == "up" and not editor.collect_sql
            own = list(known) if up or self.since == 0 else []
        if direction == "down":
            own.reverse()
        if editor.collect_sql:
            # `manage.py sqlmigrate`: the SQL for a database that has none of them, or all.
            return own
        schema = river_settings().schema
        if direction == "up" and texts.schema_missing(_ask(editor.connection)):
            editor.execute(f"create schema {editor.quote_name(schema)}", None)
        applied = texts.versions(_ask(editor.connection), self.line)
        if direction == "down":
            if unknown := [version for version in applied if version > max(known)]:
                raise MigrationError(
                    f"Version {unknown[0]} of the line {self.line} is applied, which this riverui"
                    " does not know: take it down by what brought it."
                )
            return [version for version in own if version in applied]
        if self.line == "main" and not applied and texts.jobs_exist(_ask(editor.connection)):
            raise MigrationError(
                "There is a table river_job, but no record of how it was made. If it is River's"
                f" as of version {max(known)}, run `manage.py migrate riverui --fake`."
            )
        return [version for version in own if version not in applied]


def job_table() -> str:
    """Return the name of River's table of jobs for Django's models."""
    # Read without checks: `manage.py check` reports errors once the models are loaded.
    given = getattr(settings, "RIVERUI", None)
    schema = given.get("SCHEMA") if isinstance(given, Mapping) else None
    # Django does not quote names that are quoted already.
    return f'"{schema}"."river_job"' if schema else "river_job"


def incomplete_line() -> str | None:
    """Return the line of migrations with a missing version, River's before riverui's own if the
    settings include it; None if there is none or the database does not answer.
    """
    chosen = river_settings()
    ask = _ask(connections[chosen.database])
    texts = migration_texts(chosen.url, schema=chosen.schema)
    for line in ("main", OWN_LINE) if chosen.own_tables else ("main",):
        try:
            applied = texts.versions(ask, line)
        except DatabaseError:
            return None
        if not set(migrations(chosen.url).versions(line)) <= set(applied):
            return line
    return None


def after_migrate(*, using: str, **given: object) -> None:
    """Empty River's tables when Django's tests empty all others, and create them if the project
    disables migrations for its tests.
    """
    chosen = river_settings()
    # Only the test runner has an outbox. A migration passes a plan, emptying tables does not.
    if using != chosen.database or not hasattr(mail, "outbox"):
        return
    modules: Mapping[str, str | None] = settings.MIGRATION_MODULES
    if "plan" not in given:
        empty_tables(using)
    elif "riverui" in modules and modules["riverui"] is None:
        _make_tables(using)


def empty_tables(using: str) -> None:
    """Empty the tables of River and riverui; for tests."""
    connection, chosen = connections[using], river_settings()
    sql = migration_texts(chosen.url, schema=chosen.schema).emptying(_ask(connection))
    with transaction.atomic(using=using), connection.cursor() as cursor:
        for statement in connection.ops.prepare_sql_script(sql) if sql else ():
            cursor.execute(statement)


def _make_tables(using: str) -> None:
    for line in ("main", OWN_LINE):
        # Each version in a transaction of its own: see the first migration.
        for version in migrations(river_settings().url).versions(line):
            operation = RiverMigrations(line, since=version - 1, to=version)
            with connections[using].schema_editor() as editor:
                operation.database_forwards("riverui", editor, None, None)


def _ask(connection: Any) -> Any:
    def ask(sql: str) -> Sequence[Sequence[Any]]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            rows: Sequence[Sequence[Any]] = cursor.fetchall()
            return rows

    return ask


def prepare(*, connection: Any, **given: object) -> None:
    """Add the functions of River's SQL to a new connection of SQLite."""
    if connection.vendor == "sqlite":
        prepare_sqlite(connection.connection)


class _JsonColumn:
    """A column that River's tables for SQLite hold as JSON or JSONB."""

    def select_format(self, compiler: Any, sql: str, params: Sequence[Any]) -> Any:
        """Return the SQL that selects the column."""
        # An expression with parameters is a value inside the column, not the column.
        if params or compiler.connection.vendor != "sqlite":
            return sql, params
        return sqlite_json_text(sql), params


class JsonField(_JsonColumn, models.JSONField):  # type: ignore[misc]  # Django comes without types
    """A JSON value."""


class JsonsField(_JsonColumn, models.Field):  # type: ignore[misc]  # Django comes without types
    """An array of JSON values, as a list; in SQLite one JSON value."""

    def db_type(self, connection: object) -> str:
        """Return the type of the column."""
        return "jsonb[]"

    def from_db_value(self, value: Any, expression: object, connection: object) -> Any:
        """Return the values, which Django's driver returns as text."""
        if value is None:
            return None
        values = json.loads(value) if isinstance(value, str) else value
        return [json.loads(each) if isinstance(each, str) else each for each in values]


class TextsField(_JsonColumn, models.Field):  # type: ignore[misc]  # Django comes without types
    """An array of text, as a list; in SQLite a JSON value."""

    def db_type(self, connection: object) -> str:
        """Return the type of the column."""
        return "text[]"

    def from_db_value(self, value: Any, expression: object, connection: object) -> Any:
        """Return the texts."""
        return json.loads(value) if isinstance(value, str) else value
