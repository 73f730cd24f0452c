"""Every exception that riverui raises. The docstring is the default message."""

from __future__ import annotations

from collections.abc import Mapping


class RiveruiError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None, *, public: str = "") -> None:
        default = " ".join((type(self).__doc__ or "").partition("\n\n")[0].split())
        super().__init__(message or default)
        self.public: str = public or str(self)
        """The message for users of the dashboard; differs from the message if that has details for
        operators only, such as a server's address.
        """


class ConfigError(RiveruiError):
    """A setting is not valid."""


class QueueAlreadyAdded(ConfigError):
    """The client already works this queue."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The client already works queue {name!r}.")
        self.name = name


class QueueNotFound(ConfigError):
    """The client does not work this queue."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The client does not work queue {name!r}.")
        self.name = name


class BadRequest(RiveruiError):
    """The request is not valid."""


class NotFound(RiveruiError):
    """There is nothing at this address."""


class JobGone(NotFound):
    """The job was there, and is gone: deleted, or removed as an ephemeral job that went well."""


class Forbidden(RiveruiError):
    """You may not do this."""


class SignInNeeded(RiveruiError):
    """Sign in to use this dashboard."""


class TooManyAttempts(RiveruiError):
    """Too many failed sign-ins from your address: wait a minute."""


class TooBusy(RiveruiError):
    """Too many requests at once. Try again in a few seconds."""


class DatabaseError(RiveruiError):
    """The database returned an error."""

    sqlstate: str | None = None
    """Postgres's SQLSTATE; empty if the error has its own class or no code."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached."""


class LoginRefused(DatabaseUnavailable):
    """The database refused the user name or password."""


class DatabaseMissing(DatabaseUnavailable):
    """Database not found."""


class TooManyConnections(DatabaseUnavailable):
    """The database has no connections left: the server's, the database's or the user's limit is
    reached.
    """


class ServerTooOld(DatabaseUnavailable):
    """The database server is too old for riverui: it needs PostgreSQL 13 or newer."""


class QueryTimeout(DatabaseError):
    """The query took longer than its time limit and was stopped."""


class LockTimeout(QueryTimeout):
    """Another transaction held the row for too long."""


class PermissionDenied(DatabaseError):
    """The database user lacks a privilege for this."""


class ReadOnlyDatabase(PermissionDenied):
    """This database is read-only."""


class StandbyLacks(DatabaseError):
    """A standby cannot read unlogged tables, such as the one that holds the leader."""


class StandbyConflict(DatabaseError):
    """The standby ended this query, as it kept changes of its primary from being shown."""


class SchemaMissing(DatabaseError):
    """There are no River tables here: run `riverui migrate-up`."""


class FileWithoutTables(SchemaMissing):
    """The SQLite file has no River tables: run `riverui migrate-up`."""


class SchemaTooOld(SchemaMissing):
    """River's tables are older than migration 5: run `riverui migrate-up`."""


class NotSupported(DatabaseError):
    """This database, or the driver for it, does not support that."""


class UniqueConflict(DatabaseError):
    """Another active job has the same unique properties."""

    unique_key: bytes | None = None
    """The key that is taken; None if the database does not report it."""


class JobRunning(RiveruiError):
    """The job is running and can't be deleted until it finishes."""


class OperationLost(RiveruiError):
    """Another dashboard has taken this operation over."""


class MigrationError(RiveruiError):
    """The migration cannot be run."""


class ListenError(RiveruiError):
    """The address cannot be listened on."""


class PortTaken(ListenError):
    """Another program is listening on that port."""


class DemoUnavailable(RiveruiError):
    """The demo's own Postgres cannot be started."""


class ArgsError(RiveruiError, ValueError):
    """The job args cannot be written as JSON, or read from it."""


class OutputError(RiveruiError, ValueError):
    """The job's output cannot be read as this type."""


class DecryptionError(RiveruiError, ValueError):
    """The job's args are encrypted, and cannot be decrypted."""


class InsertError(RiveruiError, ValueError):
    """The job cannot be inserted with these options."""


class WaitInvalid(InsertError):
    """What a workflow's task shall wait for is not valid."""


class UnknownJobKind(InsertError):
    """The client has no worker for this kind of job."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the client has no worker for jobs of kind {kind!r}")
        self.kind = kind


class DependencyCycleError(InsertError):
    """Tasks of the workflow wait for one another in a circle."""


class MissingDependencyError(InsertError):
    """A task waits for another that is not in the workflow."""


class DuplicateTaskError(InsertError):
    """Two tasks of the workflow have the same name."""


class WorkflowCancelled(InsertError):
    """The workflow was cancelled: nothing can be added to it until it is retried."""


class OutputMissing(NotFound):
    """The task has recorded no output."""


class WorkflowActive(BadRequest):
    """The workflow has tasks that have not ended: only one that has ended can be retried."""


class JobRefused(BadRequest):
    """This job cannot be inserted."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        """Which of what was given is wrong; empty where that is not one thing."""


class OutsideJob(RiveruiError):
    """This works only inside a running job, or in its middleware and hooks."""


class AttemptLost(RiveruiError):
    """The job was rescued from this attempt, and another one is under way."""


class JobTimedOut(RiveruiError, TimeoutError):
    """The job timed out."""


class JobProcessDied(RiveruiError):
    """The job's process died in the middle of it."""


class JobProcessError(RiveruiError):
    """A job in a process of its own raised an error whose class is not known here."""


class WaitTimeout(RiveruiError, TimeoutError):
    """The job has not ended in time."""

    def __init__(self, message: str, *, states: Mapping[int, str | None]) -> None:
        super().__init__(message)
        self.states = dict(states)
        """The jobs that have not ended, and the states in which they were."""


class ResumableError(RiveruiError):
    """The steps of a resumable job do not match."""


class SignalRefused(BadRequest, ValueError):
    """The workflow does not take this signal."""


class SignalAttemptMismatch(SignalRefused):
    """The workflow is in another attempt than the one that the signal is for."""

    def __init__(self, workflow_id: str, requested: int, current: int) -> None:
        super().__init__(
            f"Workflow {workflow_id[:128]!r} is in attempt {current}, not in attempt {requested}."
        )
        self.workflow_id, self.requested, self.current = workflow_id, requested, current


class SignalConflict(SignalRefused):
    """Another signal has the same idempotency key."""


class SignalUndeclared(SignalRefused):
    """The task does not wait for signals with this key."""


class ExpressionsUnavailable(ConfigError):
    """Waits need CEL: install `riverui[workflows]`."""
