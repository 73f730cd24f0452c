"""Every exception that riverui raises. The docstring is the default message."""

from __future__ import annotations


class RiveruiError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None, *, public: str = "") -> None:
        default = (type(self).__doc__ or "").strip().splitlines()[0]
        super().__init__(message or default)
        self.public = public or str(self)
        """What those may be told who use the dashboard, where the message says more: a server's address."""


class ConfigError(RiveruiError):
    """A setting is not usable."""


class QueueAlreadyAdded(ConfigError):
    """The client works this queue already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The queue {name!r} is worked already.")
        self.name = name


class QueueNotFound(ConfigError):
    """The client does not work this queue."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The queue {name!r} is not worked.")
        self.name = name


class BadRequest(RiveruiError):
    """The request does not make sense."""


class NotFound(RiveruiError):
    """There is nothing at this address."""


class Forbidden(RiveruiError):
    """You may not do this."""


class SignInNeeded(RiveruiError):
    """Sign in to use this dashboard."""


class TooManyAttempts(RiveruiError):
    """Too many failed sign-ins from your address: wait a minute."""


class DatabaseError(RiveruiError):
    """The database answered with an error."""

    sqlstate: str | None = None
    """Postgres's code of the error, where it told one that has no class of its own here."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached."""


class LoginRefused(DatabaseUnavailable):
    """The database refused the user name or password."""


class DatabaseMissing(DatabaseUnavailable):
    """There is no database of that name."""


class TooManyConnections(DatabaseUnavailable):
    """The database has no connection left: the server's, the database's or the user's limit is reached."""


class QueryTimeout(DatabaseError):
    """The query took longer than its time limit and was stopped."""


class LockTimeout(QueryTimeout):
    """Another transaction held the row for too long."""


class PermissionDenied(DatabaseError):
    """The database user lacks a privilege for this."""


class ReadOnlyDatabase(PermissionDenied):
    """This database is read-only."""


class StandbyLacks(DatabaseError):
    """A standby does not have the contents of unlogged tables, such as the one that names the leader."""


class SchemaMissing(DatabaseError):
    """There are no River tables here: run `riverui migrate-up`."""


class SchemaTooOld(SchemaMissing):
    """River's tables are older than migration 5: run `riverui migrate-up`."""


class UniqueConflict(DatabaseError):
    """Another active job has the same unique properties."""


class JobRunning(RiveruiError):
    """The job is being worked: only once it has ended can it be deleted."""


class MigrationError(RiveruiError):
    """The migration cannot be run."""


class ListenError(RiveruiError):
    """The address cannot be listened on."""


class PortTaken(ListenError):
    """Another program listens on that port."""


class DemoUnavailable(RiveruiError):
    """The demo's own Postgres cannot be started."""


class ArgsError(RiveruiError, ValueError):
    """The job args cannot be written as JSON, or read from it."""


class InsertError(RiveruiError, ValueError):
    """The job cannot be inserted with these options."""


class UnknownJobKind(InsertError):
    """The client has no worker for this kind of job."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the client has no worker for jobs of kind {kind!r}")
        self.kind = kind


class OutsideJob(RiveruiError):
    """This works only inside a job that a client works, or in its middleware and hooks."""


class JobTimedOut(RiveruiError, TimeoutError):
    """The job took longer than it may."""


class ResumableError(RiveruiError):
    """The steps of a resumable job do not fit together."""
