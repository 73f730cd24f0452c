"""Sends one reading statement with its own transaction and settings in one round trip.

A libpq pipeline is an implicit transaction up to its sync: the settings sent before the statement
apply to it alone. So nothing stays in the session, as a pooler in transaction mode needs, and a
host's connections are returned unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import capabilities, errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    from psycopg import abc
    from psycopg.pq.abc import PGconn, PGresult

    from riverui.storage.postgres.conninfo import Connection

_SETTINGS = (
    b"select set_config('transaction_read_only', 'on', true),"
    b" set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $2::text, true),"
    b" set_config('idle_in_transaction_session_timeout', $3::text, true),"
    b" set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true),"
    b" set_config('jit', 'off', true), set_config('enable_bitmapscan', $4::text, true),"
    b" set_config('enable_seqscan', $5::text, true),"
    b" set_config('plan_cache_mode', $6::text, true)"
)
"""The same settings as in a transaction; see riverui.storage.postgres.driver."""
_MAX_PREPARED = 64
"""Most prepared statements of a connection, each some 100 kB in the server: as many as all
combinations of River UI's parameters need.
"""


_MAX_PLANS = 16
"""Most statements of a connection that are prepared with their values, each some 200 kB in the
server: the lists that people and programs repeat.
"""
_PARAMETER = re.compile(rb"\$(\d+)")


class Keep(Enum):
    """What a connection caches of a statement, if it can cache anything."""

    NOTHING = "nothing"
    STATEMENT = "statement"
    """It is prepared: its plan does not depend on its values."""
    PLAN = "plan"
    """It is prepared with its values when it runs the second time with the same ones: its plan
    depends on them, and parsing and planning may take longer than running it.
    """


class PlannedFor(NamedTuple):
    """A statement with its values and the settings that its plan depends on."""

    text: bytes
    values: str
    bitmaps: bool
    scans: bool


class Prepared(dict[bytes, bytes]):
    """The prepared statements of a connection and their names; an empty name for those that it
    must not prepare again.
    """

    def __init__(self, encoding: str) -> None:
        super().__init__()
        # Without the connection, which it would otherwise keep alive.
        self._known: abc.Transformer | None = Transformer() if encoding == "utf-8" else None
        self._names = count()
        self.plans: dict[PlannedFor, bytes] = {}
        """Names of those prepared with their values, the latest used last; empty for statements
        that ran only once.
        """

    def new_name(self) -> bytes:
        """Return an unused name."""
        return b"riverui_%d" % next(self._names)

    def plan_of(self, wanted: PlannedFor) -> tuple[bytes | None, bytes]:
        """Return the name of a statement prepared with its values, empty if it is to be prepared
        now, None if it is not worth it yet; and the name of one to deallocate, if any.
        """
        name = self.plans.pop(wanted, None)
        given_up = b""
        if name is None and len(self.plans) >= _MAX_PLANS:
            given_up = self.plans.pop(next(iter(self.plans)))
        self.plans[wanted] = name or b""
        return name, given_up

    def transformer(self, connection: Connection) -> abc.Transformer:
        """Return the transformer that writes and reads values in UTC; it caches the used types."""
        return self._known or Transformer.from_context(connection)


class ReadSettings(NamedTuple):
    """Settings of a reading statement: its limits in milliseconds, and the scans it may use."""

    statement: int
    lock: int
    idle: int
    bitmaps: bool = False
    scans: bool = False
    """Whether it may read a whole table."""
    replan: bool = False
    """Whether it is planned for its parameters each time."""

    def values(self, *, prepare: bool) -> list[bytes | None]:
        """Return the parameters of the statement that sets them.

        A prepared statement is planned once, unless its plan depends on its parameters: otherwise
        the planner would compare costs that it cannot know.
        """
        once = prepare and not self.replan
        return [
            b"%d" % self.statement,
            b"%d" % self.lock,
            b"%d" % self.idle,
            b"on" if self.bitmaps else b"off",
            b"on" if self.scans else b"off",
            b"force_generic_plan" if once else b"force_custom_plan",
        ]


@cache
def can_pipeline() -> bool:
    """Return whether the libpq in use has pipelines, as all from version 14 on do."""
    return capabilities.has_pipeline()


async def read(
    connection: Connection,
    settings: ReadSettings,
    text: bytes,
    values: Sequence[Any],
    *,
    prepared: Prepared | None,
    keep: Keep,
) -> PGresult:
    """Return the binary result of a statement under these settings, on an idle connection.

    `prepared` is None if the connection can keep no statement. Raises psycopg's errors.
    """
    async with connection.lock:
        try:
            return await connection.wait(
                _exchange(connection, settings, text, values, prepared, keep)
            )
        except (errors.FeatureNotSupported, errors.InvalidSqlStatementName) as error:
            if prepared is None:
                raise
            # Its tables have changed, or the session has dropped its prepared statements.
            prepared.plans.clear()
            lost = [text] if isinstance(error, errors.FeatureNotSupported) else list(prepared)
            prepared.update(dict.fromkeys(lost, b""))
            return await connection.wait(_exchange(connection, settings, text, values, None, keep))


def _keeps(prepared: Prepared | None, text: bytes) -> bool:
    """Return whether the connection has prepared a statement, or has room for it."""
    if prepared is None:
        return False
    name = prepared.get(text)
    return len(prepared) < _MAX_PREPARED if name is None else bool(name)


def _exchange(
    connection: Connection,
    settings: ReadSettings,
    text: bytes,
    values: Sequence[Any],
    prepared: Prepared | None,
    keep: Keep,
) -> Generator[Wait, Ready | int, PGresult]:
    """Yield what to wait for until the answer arrives; return the result."""
    kept = keep is Keep.STATEMENT and _keeps(prepared, text)
    transformer = (
        Transformer.from_context(connection)
        if prepared is None
        else prepared.transformer(connection)
    )
    # A number's type would otherwise depend on its size; a prepared statement has its own types.
    form = PyFormat.TEXT if kept else PyFormat.AUTO
    given = transformer.dump_sequence(values, [form] * len(values)) if values else []
    types = transformer.types if values else None
    formats = transformer.formats if values else None
    setting_values = settings.values(prepare=keep is Keep.STATEMENT)
    pgconn = connection.pgconn
    wanted: PlannedFor | None = None
    plan: bytes | None = None
    given_up = b""
    if keep is Keep.PLAN and prepared is not None:
        wanted = PlannedFor(text, repr(values), settings.bitmaps, settings.scans)
        plan, given_up = prepared.plan_of(wanted)
    added: dict[bytes, bytes] = {}
    answers: list[bytes | None] = []
    """For each answer, the statement that it prepares."""

    def name_of(statement: bytes, known: Prepared) -> bytes:
        """Return the name of a statement; prepare it if it is new."""
        name = known.get(statement)
        if name is None:
            name = added[statement] = known.new_name()
            pgconn.send_prepare(name, statement)
            answers.append(statement)
        return name

    pgconn.enter_pipeline_mode()
    try:
        if prepared is not None and _keeps(prepared, _SETTINGS):
            pgconn.send_query_prepared(name_of(_SETTINGS, prepared), setting_values)
        else:
            pgconn.send_query_params(_SETTINGS, setting_values)
        answers.append(None)
        if given_up:
            pgconn.send_query_params(b"deallocate " + given_up, None)
            answers.append(None)
        if prepared is not None and plan is not None:
            if not plan:
                plan = prepared.new_name()
                pgconn.send_prepare(plan, _with_literals(text, values, transformer))
                answers.append(None)
            pgconn.send_query_prepared(plan, None, None, Format.BINARY)
        elif prepared is not None and kept:
            pgconn.send_query_prepared(name_of(text, prepared), given, formats, Format.BINARY)
        else:
            pgconn.send_query_params(text, given, types, formats, Format.BINARY)
        pgconn.pipeline_sync()
        results = yield from _results(pgconn)
    finally:
        # Fails while answers are outstanding: then the connection is lost anyway.
        with suppress(psycopg.Error):
            pgconn.exit_pipeline_mode()
    for result, statement in zip(results, answers, strict=False):
        if statement and prepared is not None and result.status == ExecStatus.COMMAND_OK:
            prepared[statement] = added[statement]
    if wanted is not None and prepared is not None and plan:
        # If the preparation failed, the name does not exist, and its next use fails.
        prepared.plans[wanted] = plan
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result, connection.info.encoding)
    return results[-1]


def _with_literals(text: bytes, values: Sequence[Any], transformer: abc.Transformer) -> bytes:
    """Return a statement with its values in place of its parameters, each quoted by libpq."""
    literals = [bytes(transformer.as_literal(value)) for value in values]
    return _PARAMETER.sub(lambda found: literals[int(found[1]) - 1], text)


def _results(pgconn: PGconn) -> Generator[Wait, Ready | int, list[PGresult]]:
    """Yield what to wait for until the pipeline's sync arrives; return the results before it."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    results: list[PGresult] = []
    while True:
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                # Between two answers.
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)
        while not (yield Wait.R):
            pass
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            # The server's last error says more than that the connection closed.
            if any(result.status == ExecStatus.FATAL_ERROR for result in results):
                return results
            raise
