"""From psycopg's exceptions to riverui's."""

from __future__ import annotations

import psycopg
import pytest
from psycopg_pool import PoolClosed, PoolTimeout

from riverui import errors
from riverui.storage.postgres.errors import refused, translate


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('FATAL:  password authentication failed for user "x"', errors.LoginRefused),
        ("fe_sendauth: no password supplied", errors.LoginRefused),
        ('FATAL:  role "x" does not exist', errors.LoginRefused),
        (
            'FATAL:  no pg_hba.conf entry for host "1.2.3.4", user "x", database "d"',
            errors.LoginRefused,
        ),
        ('FATAL:  Peer authentication failed for user "x"', errors.LoginRefused),
        ("FATAL:  SASL authentication failed", errors.LoginRefused),
        ('FATAL:  database "d" does not exist', errors.DatabaseMissing),
        ("ERROR: no such database: d", errors.DatabaseMissing),
        ("FATAL:  sorry, too many clients already", errors.TooManyConnections),
        ('FATAL:  too many connections for role "x"', errors.TooManyConnections),
        (
            (
                "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER"
                " attribute"
            ),
            errors.TooManyConnections,
        ),
        ("FATAL:  no more connections allowed (max_client_conn)", errors.TooManyConnections),
        ("Connection refused\n\tIs the server running?", errors.DatabaseUnavailable),
        ("FATAL:  the database system is starting up", errors.DatabaseUnavailable),
        ("", errors.DatabaseUnavailable),
    ],
)
def test_why_a_connection_was_refused(words: str, kind: type[Exception]) -> None:
    failure = refused(psycopg.OperationalError(words))
    assert type(failure) is kind
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('FATAL:  database "my shop" does not exist', "There is no database named “my shop”."),
        ("ERROR: no such database: shop", "There is no database named “shop”."),
        ("FATAL: database does not exist", "Database not found."),
    ],
)
def test_a_missing_database_is_named(words: str, message: str) -> None:
    assert str(refused(psycopg.OperationalError(words))) == message


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("28P01", errors.LoginRefused),
        ("3D000", errors.DatabaseMissing),
        ("57014", errors.QueryTimeout),
        ("55P03", errors.LockTimeout),
        ("42501", errors.PermissionDenied),
        ("25006", errors.ReadOnlyDatabase),
        ("42P01", errors.SchemaMissing),
        ("42703", errors.SchemaMissing),
        ("3F000", errors.SchemaMissing),
        ("57P01", errors.DatabaseUnavailable),
        ("57P03", errors.DatabaseUnavailable),
        ("53300", errors.TooManyConnections),
        ("08006", errors.DatabaseUnavailable),
        ("08P01", errors.DatabaseUnavailable),
        ("22P05", errors.BadRequest),
        ("54001", errors.BadRequest),
        ("40001", errors.LockTimeout),
        ("40P01", errors.DatabaseError),
        ("23505", errors.DatabaseError),
        ("XX000", errors.DatabaseError),
    ],
)
def test_by_state(state: str, kind: type[Exception]) -> None:
    cause = psycopg.errors.lookup(state)("words")
    cause.sqlstate = state
    assert type(translate(cause)) is kind


def test_without_a_state() -> None:
    assert (
        type(translate(psycopg.OperationalError("the connection is closed")))
        is errors.DatabaseUnavailable
    )
    assert type(translate(psycopg.InterfaceError("closed"))) is errors.DatabaseUnavailable
    assert type(translate(psycopg.DataError("NUL"))) is errors.BadRequest
    assert type(translate(psycopg.ProgrammingError("?"))) is errors.DatabaseError
    assert type(translate(PoolTimeout("busy"))) is errors.DatabaseUnavailable
    assert type(translate(PoolClosed("closed"))) is errors.DatabaseUnavailable


def test_other_exceptions_stay_themselves() -> None:
    for error in (ValueError("x"), errors.NotFound(), OSError()):
        assert translate(error) is error
