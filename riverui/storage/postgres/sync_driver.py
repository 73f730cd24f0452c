"""The driver of the synchronous client: the same statements on a small pool of our own, or inside
the caller's transaction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from io import StringIO
from threading import Event, Lock, Timer
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from riverui.domain.jobs import JobRow
from riverui.errors import DatabaseUnavailable
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobInsertParams,
    JobSelectParams,
    JobSetStateParams,
)
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.own_tables import OWN_TABLES
from riverui.storage.interface.own_workflows import OWN_WORKFLOWS
from riverui.storage.interface.sequences import SEQUENCES, Claims
from riverui.storage.interface.waits import WAITS, SignalInserted, SignalInsertParams
from riverui.storage.options import Watch
from riverui.storage.postgres.admin.job_actions import cancel_many
from riverui.storage.postgres.client_timeout import hang_up
from riverui.storage.postgres.engine.job_insert import insert_many, insert_many_fast
from riverui.storage.postgres.engine.job_work import set_state_many
from riverui.storage.postgres.errors import refused, translate, translate_foreign
from riverui.storage.postgres.foreign_transactions import sync_connection_of
from riverui.storage.postgres.job_list.select import row_list
from riverui.storage.postgres.limits import LIMITS
from riverui.storage.postgres.own import operations, sequences, waits
from riverui.storage.postgres.own.sync_workflows import SyncWorkflows
from riverui.storage.postgres.pool_log import POOL_NAME, leave_to_exceptions
from riverui.storage.postgres.rows import Rows
from riverui.storage.postgres.sessions import is_closed_by_server
from riverui.storage.postgres.statements import Steps, load_queries
from riverui.storage.sql import Queries

_T = TypeVar("_T")
_PARAMETER = re.compile(r"\$(\d+)")
_LIFETIME = 1800.0
"""Seconds after which a connection is not used again: poolers, DNS and secrets move on."""


class _SyncConnection(Protocol):
    """A connection of some library: what is asked of each."""

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        """Run a statement with `$1`, `$2`, …; return its rows."""
        ...

    def copy(self, text: str, rows: str) -> None:
        """Run a COPY of rows in its text format."""
        ...


class PostgresSyncExecutor(SyncWorkflows):
    """The operations of SyncExecutor, on a connection of some library."""

    capabilities: Collection[Capability[Any]] = frozenset(
        {OWN_TABLES, OWN_WORKFLOWS, SEQUENCES, WAITS}
    )

    def __init__(
        self,
        connection: _SyncConnection,
        queries: Queries,
        schema: str | None,
        watch: Watch | None = None,
    ) -> None:
        self._connection = connection
        self._queries = queries
        self._schema = schema
        self._watch = watch

    def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs and tell the workers of the queues in `notify`; return one answer per job, in
        order.
        """
        return self._drive(insert_many(jobs, schema=self._schema, notify=notify))

    def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """COPY jobs and return how many; see SyncExecutor."""
        return self._drive(insert_many_fast(jobs, schema=self._schema, notify=notify))

    def job_cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """Cancel jobs; LockTimeout where somebody else holds one of them."""
        return self._drive(cancel_many(ids, schema=self._schema))

    def job_row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Return whole jobs; see EngineExecutor."""
        return self._drive(row_list(params))

    def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """Change running jobs; see SyncExecutor."""
        return self._drive(set_state_many(changes))

    def own_table_list(self) -> frozenset[str]:
        """Return the names of riverui's own tables; see OwnTablesExecutor."""
        return self._drive(operations.table_list(schema=self._schema))

    def workflow_signal_insert(self, params: SignalInsertParams) -> SignalInserted | None:
        """Keep a signal; see WaitExecutor."""
        return self._drive(waits.signal_insert(params, schema=self._schema))

    def sequence_claim(self, keys: Collection[str]) -> Claims:
        """Return what is found of keys; see SequenceExecutor."""
        return self._drive(sequences.claim(keys))

    def sequence_put(
        self, heads: Sequence[tuple[str, int]], waiting: Sequence[tuple[str, int]]
    ) -> None:
        """Write where inserted jobs stand; see SequenceExecutor."""
        self._drive(sequences.put(heads, waiting))

    def sequence_advance(
        self, keys: Collection[str], *, over_ids: Collection[int] = ()
    ) -> Sequence[str]:
        """Let the next jobs run; see SequenceExecutor."""
        return self._drive(sequences.advance(keys, over_ids=over_ids, schema=self._schema))

    def _drive(self, steps: Steps[_T]) -> _T:
        """Run an operation's statements; return what it returns. See Statements._drive."""
        try:
            statement = next(steps)
            while True:
                text, values = self._queries.render(statement.fragment)
                if self._watch:
                    self._watch(str(statement.fragment.source), text, values)
                if statement.copy is not None:
                    self._connection.copy(text, statement.copy)
                    statement = steps.send(Rows())
                else:
                    statement = steps.send(self._connection.ask(text, values))
        except StopIteration as end:
            result: _T = end.value
            return result


class PostgresSyncDriver:
    """A Postgres database with River's tables, for inserting; opens itself at first use."""

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str | None,
        size: int,
        pool_timeout: timedelta,
        action_timeout: timedelta,
        pool: ConnectionPool[Any] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._conninfo = conninfo
        self._queries = load_queries(schema)
        self._schema = schema
        self._size = size
        self._pool_timeout = pool_timeout.total_seconds()
        self._limit = action_timeout
        self._given = pool
        self._watch = watch
        self._own: ConnectionPool[Connection[Any]] | None = None
        self._opening = Lock()

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractContextManager[PostgresSyncExecutor]:
        """Begin a transaction under a time limit; it commits unless an exception leaves it."""
        return self._executing(timeout, begin=True)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractContextManager[PostgresSyncExecutor]:
        """Lend a pooled connection on which each call is a transaction of its own."""
        return self._executing(timeout, begin=False)

    def adopt(self, transaction: object) -> PostgresSyncExecutor:
        """Return the operations inside the caller's own transaction; TypeError for what is none."""
        return self._executor(_connection_in(transaction))

    def close(self) -> None:
        """Close what it opened itself; safe to call twice."""
        with self._opening:
            pool, self._own = self._own, None
        if pool is not None:
            pool.close()

    @contextmanager
    def _executing(
        self, timeout: timedelta | None, *, begin: bool
    ) -> Iterator[PostgresSyncExecutor]:
        limit = (timeout or self._limit).total_seconds()
        try:
            with (
                self._connection() as connection,
                _client_timeout(connection, limit),
                connection.transaction() if begin else nullcontext(),
            ):
                yield self._executor(_PsycopgConnection(connection))
        except PoolTimeout as error:
            raise self._unavailable() from error
        except psycopg.Error as error:
            raise translate(error) from error

    def _executor(self, connection: _SyncConnection) -> PostgresSyncExecutor:
        return PostgresSyncExecutor(connection, self._queries, self._schema, self._watch)

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        """Lend a connection in autocommit mode that is alive."""
        pool = self._given or self._opened()
        for attempt in range(pool.max_size + 1):
            with pool.connection(timeout=self._pool_timeout) as connection:
                if is_closed_by_server(connection) and attempt < pool.max_size:
                    connection.close()
                    continue
                autocommit = connection.autocommit
                if not autocommit:
                    connection.autocommit = True
                try:
                    yield connection
                finally:
                    if (
                        not autocommit
                        and connection.info.transaction_status == TransactionStatus.IDLE
                    ):
                        connection.autocommit = False
                return

    def _opened(self) -> ConnectionPool[Connection[Any]]:
        with self._opening:
            if self._own is None:
                leave_to_exceptions()
                self._own = ConnectionPool(
                    self._conninfo,
                    # No prepared statements: through a pooler they would land on another server.
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    max_lifetime=_LIFETIME,
                    max_size=self._size,
                    min_size=0,
                    name=POOL_NAME,
                    open=True,
                    reconnect_timeout=0,
                )
            return self._own

    def _unavailable(self) -> DatabaseUnavailable:
        """Return why the pool gives no connection, found out by a connection of our own."""
        if self._given is None:
            try:
                psycopg.connect(self._conninfo).close()
            except (psycopg.Error, OSError) as error:
                return refused(error)
        return DatabaseUnavailable("No database connection became free in time.")


class _PsycopgConnection:
    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        try:
            cursor = RawCursor(self._connection, row_factory=tuple_row)
            cursor.execute(text.encode(), values or None, prepare=False, binary=True)
            columns = cursor.description
            return (
                Rows(cursor.fetchall(), [column.name for column in columns]) if columns else Rows()
            )
        except psycopg.Error as error:
            raise translate(error) from error

    def copy(self, text: str, rows: str) -> None:
        try:
            with RawCursor(self._connection).copy(text.encode()) as copy:
                copy.write(rows)
        except psycopg.Error as error:
            raise translate(error) from error


class _Psycopg2Connection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        named = _PARAMETER.sub(r"%(p\1)s", text.replace("%", "%%"))
        parameters = {f"p{place}": value for place, value in enumerate(values, 1)}
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(named, parameters)
                columns = cursor.description
                if columns is None:
                    return Rows()
                return Rows(map(tuple, cursor.fetchall()), [column[0] for column in columns])
        except Exception as error:
            raise translate_foreign(error) from error

    def copy(self, text: str, rows: str) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.copy_expert(text, StringIO(rows))
        except Exception as error:
            raise translate_foreign(error) from error


def _connection_in(transaction: object) -> _SyncConnection:
    connection = sync_connection_of(transaction)
    return (
        _PsycopgConnection(connection)
        if isinstance(connection, Connection)
        else _Psycopg2Connection(connection)
    )


@contextmanager
def _client_timeout(connection: Connection[Any], limit: float) -> Iterator[None]:
    """Stop a statement that takes longer than `limit` seconds; close the connection where that does
    not help either.
    """
    answered = Event()
    alarm = Timer(limit, _stop, (connection, answered))
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        answered.set()
        alarm.cancel()


def _stop(connection: Connection[Any], answered: Event) -> None:
    with suppress(OSError, psycopg.Error):
        connection.cancel_safe(timeout=LIMITS.grace_seconds)
    if not answered.wait(LIMITS.grace_seconds):
        hang_up(connection)
