"""Functions as jobs: their parameters are the args, `Workers.task` is their decorator."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import field, fields as dataclass_fields, make_dataclass
from datetime import timedelta
from functools import update_wrapper, wraps
from inspect import Parameter
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_origin,
    get_type_hints,
    overload,
)

from riverui.domain.retries import Retry
from riverui.domain.values import MAX_KIND_CHARACTERS, is_kind
from riverui.engine.args.decoding import reader
from riverui.engine.args.job_args import ReadAgain, SameInsertOpts
from riverui.engine.insert.checks import check_opts
from riverui.engine.insert.insert_opts import (
    InsertKeywords,
    InsertManyParams,
    InsertOpts,
    SequenceOption,
    UniqueOpts,
    opts_with,
)
from riverui.engine.work.context import in_job_without_loop, record_output
from riverui.engine.work.worker import Isolation, Job
from riverui.errors import ConfigError, InsertError

if TYPE_CHECKING:
    from riverui.engine.args.job_args import JobArgs
    from riverui.storage.interface.engine_params import InsertResult

P = ParamSpec("P")
R = TypeVar("R")

_RESERVED = frozenset({"from_json", "insert_opts", "kind", "to_json"})
"""Attributes of args with a meaning, see job_args: no parameter may have such a name."""
_STARS: Mapping[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Inserts(Protocol):
    """The methods of a Client that tasks call."""

    def insert(
        self, args: JobArgs, insert_opts: InsertOpts | None = None
    ) -> Coroutine[Any, Any, InsertResult]:
        """Insert a job."""
        ...

    def insert_tx(
        self, tx: object, args: JobArgs, insert_opts: InsertOpts | None = None
    ) -> Coroutine[Any, Any, InsertResult]:
        """Insert a job in the caller's transaction."""
        ...


class InsertsAtOnce(Protocol):
    """The methods of a SyncClient that tasks call."""

    def insert(self, args: JobArgs, insert_opts: InsertOpts | None = None) -> InsertResult:
        """Insert a job."""
        ...

    def insert_tx(
        self, tx: object, args: JobArgs, insert_opts: InsertOpts | None = None
    ) -> InsertResult:
        """Insert a job in the caller's transaction."""
        ...


class WorkKeywords(TypedDict, total=False):
    """How the jobs of a task are worked: see `Workers.work`."""

    ephemeral: bool | None
    hard_timeout: timedelta | None
    isolation: Isolation | None
    retry: Retry | None
    timeout: timedelta | None
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] | None
    """Converts the args of an older version, as they are in the row, to current ones."""


class TaskKeywords(WorkKeywords, total=False):
    """The settings of a task: how its jobs are worked, and the default options of their inserts."""

    delay: timedelta | None
    max_attempts: int | None
    priority: int | None
    queue: str | None
    sequence: SequenceOption | None
    tags: Sequence[str] | None
    unique_opts: UniqueOpts | None


_WORK_SETTINGS = frozenset(WorkKeywords.__annotations__)
_OPTIONS = frozenset(InsertKeywords.__annotations__)


class TaskArgs(ReadAgain):
    """Args of a task's job: a dataclass with the parameters of its function as fields."""

    kind: ClassVar[str]


class TaskInserter(Generic[P]):
    """Inserts jobs of a task with other options; see `Task.with_opts`."""

    def __init__(self, args_type: type[TaskArgs], insert_opts: InsertOpts | None = None) -> None:
        self.args_type = args_type
        """The dataclass of the args, with the job's `kind`."""
        self._insert_opts = insert_opts

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.args_type.kind}>"

    @overload
    def insert(
        self, client: InsertsAtOnce, /, *args: P.args, **kwargs: P.kwargs
    ) -> InsertResult: ...

    @overload
    def insert(
        self, client: Inserts, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, InsertResult]: ...

    def insert(self, client: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        """Insert a job that calls the function with these arguments; return the InsertResult, which
        an asynchronous client's caller awaits.
        """
        self._check_client(client, "insert(client, …)")
        return client.insert(self._args(args, kwargs), self._insert_opts)

    @overload
    def insert_tx(
        self, client: InsertsAtOnce, tx: object, /, *args: P.args, **kwargs: P.kwargs
    ) -> InsertResult: ...

    @overload
    def insert_tx(
        self, client: Inserts, tx: object, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, InsertResult]: ...

    def insert_tx(self, client: Any = None, tx: object = None, /, *args: Any, **kwargs: Any) -> Any:
        """Insert such a job in the caller's transaction."""
        self._check_client(client, "insert_tx(client, tx, …)")
        return client.insert_tx(tx, self._args(args, kwargs), self._insert_opts)

    def params(self, /, *args: P.args, **kwargs: P.kwargs) -> InsertManyParams:
        """Return such a job with the options, for `insert_many` and periodic jobs."""
        return InsertManyParams(self._args(args, kwargs), self._insert_opts)

    def with_opts(self, **keywords: Unpack[InsertKeywords]) -> TaskInserter[P]:
        """Return an inserter of this task's jobs with other options: `await
        send_mail.with_opts(delay=timedelta(minutes=5)).insert(client, to=…)`.
        """
        return TaskInserter(self.args_type, opts_with(self._insert_opts, keywords))

    def _args(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskArgs:
        try:
            return self.args_type(*args, **kwargs)
        except TypeError as error:
            fields = {field.name for field in dataclass_fields(cast(Any, self.args_type))}
            options = [key for key in kwargs.keys() - fields if key in _OPTIONS]
            if not options:
                raise
            name = self.args_type.__name__
            given = ", ".join(f"{option}=…" for option in sorted(options))
            raise TypeError(f"{error}: options are given as {name}.with_opts({given})") from None

    def _check_client(self, client: Any, usage: str) -> None:
        name = self.args_type.__name__
        if isinstance(client, type) or not hasattr(client, "insert_tx"):
            raise TypeError(
                f"{name}.{usage}: the first argument is a Client or a SyncClient, not"
                f" {client!r:.100}"
            )
        # The coroutine would never be awaited, and nothing inserted.
        if inspect.iscoroutinefunction(client.insert_tx) and in_job_without_loop():
            raise TypeError(
                f"{name}.{usage}: a synchronous job cannot await this client: insert with a"
                " SyncClient, made once for the module"
            )


_ELSEWHERE = frozenset({"apply_async", "defer", "delay", "enqueue", "send"})
"""Methods of other libraries that insert a job."""


class _FunctionTask(TaskInserter[P], Generic[P, R]):
    """The common part of tasks with and without their job."""

    __name__: str
    """The function's name."""

    def __init__(
        self,
        function: Callable[..., R],
        args_type: type[TaskArgs],
        work: Callable[[Job[Any]], Any],
    ) -> None:
        super().__init__(args_type)
        # The task has the function's name, docstring and signature.
        update_wrapper(cast(Any, self), function)
        self.function = function
        """The original function."""
        self.work = work
        """Works a job of the task."""

    if not TYPE_CHECKING:  # For type checkers it would make every attribute valid.

        def __getattr__(self, name: str) -> Any:
            words = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _ELSEWHERE:
                words += f": insert a job with {self.__name__}.insert(client, …)"
            raise AttributeError(words, name=name, obj=self)

    def __reduce__(self) -> str:
        # Pickled like functions, by its name in its module.
        return self.function.__qualname__

    def args(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskArgs:
        """Return the args of a job that calls the function with these arguments, for
        `client.insert`, workflows, periodic jobs and so on.
        """
        return self.args_type(*args, **kwargs)


class Task(_FunctionTask[P, R]):
    """A function whose calls can be inserted as jobs. Calling it calls the function."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)


class TaskWithJob(_FunctionTask[P, R]):
    """A Task whose function takes its job as the first argument; the job is not part of the
    args.
    """

    def __call__(self, job: Job[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function with a job."""
        return self.function(job, *args, **kwargs)


class TaskDecorator(Protocol):
    """Makes a Task of a function."""

    def __call__(self, function: Callable[P, R], /) -> Task[P, R]:
        """Return the task."""
        ...


class TaskWithJobDecorator(Protocol):
    """Makes a TaskWithJob of a function."""

    def __call__(self, function: Callable[Concatenate[Job[Any], P], R], /) -> TaskWithJob[P, R]:
        """Return the task."""
        ...


def make_task(
    function: Callable[..., Any],
    *,
    kind: str | None,
    kind_aliases: Sequence[str],
    pass_job: bool,
    settings: Mapping[str, Any],
) -> Task[..., Any] | TaskWithJob[..., Any]:
    """Return the task of a function; ConfigError if it cannot be one."""
    name = _checked_name(function)
    for setting in settings:
        if setting not in TaskKeywords.__annotations__:
            raise ConfigError(f"{name}: a task has no setting {setting!r}.")
    if isinstance(kind_aliases, str):
        raise ConfigError(f"{name}: kind_aliases must be a list of kinds, not one text.")
    attributes: dict[str, Any] = {"kind": _checked_kind(name, kind)}
    if kind_aliases:
        attributes["kind_aliases"] = tuple(kind_aliases)
    if settings.get("retry") is not None:
        attributes["retry"] = settings["retry"]
    if (upgrade := settings.get("upgrade")) is not None:
        if not callable(upgrade):
            raise ConfigError(f"{name}: upgrade must be a function, not {upgrade!r:.100}.")
        attributes["upgrade"] = staticmethod(upgrade)
    opts = opts_with(
        None, {key: value for key, value in settings.items() if key not in _WORK_SETTINGS}
    )
    if opts is not None and opts != InsertOpts():
        try:
            check_opts(opts)
        except InsertError as error:
            raise ConfigError(f"{name}: {error}.") from None
        attributes["insert_opts"] = SameInsertOpts(opts)
    args_type = _args_type(function, attributes, pass_job=pass_job)
    made: type[Task[..., Any] | TaskWithJob[..., Any]] = TaskWithJob if pass_job else Task
    return made(function, args_type, _worked(function, pass_job=pass_job))


def _checked_name(function: Any) -> str:
    """Return the name of a function; ConfigError for anything but a plain function."""
    usage = "decorate a function, with `@workers.task` or `@workers.task(queue=…)`"
    if isinstance(function, _FunctionTask):
        raise ConfigError(f"{function.function.__qualname__} is a task already.")
    name = getattr(function, "__qualname__", None)
    if not callable(function) or isinstance(function, type) or not isinstance(name, str):
        raise ConfigError(f"{function!r} cannot be a task: {usage}.")
    within = name.rpartition(".")[0]
    if inspect.ismethod(function) or (within and not within.endswith("<locals>")):
        raise ConfigError(
            f"{name} is a method, and a job has no object to call it on: {usage}, or write a Worker"
            " class."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{name} is a generator, of which a call alone does nothing: {usage}.")
    return name


def _checked_kind(name: str, kind: str | None) -> str:
    """Return the kind of a task, by default its function's name."""
    chosen = name.rpartition(".")[2] if kind is None else kind
    if isinstance(chosen, str) and is_kind(chosen):
        return chosen
    raise ConfigError(
        f"{name}: {chosen!r} cannot be a kind: give one, as `@workers.task(kind=…)`, of 2 to"
        f" {MAX_KIND_CHARACTERS} letters, digits and underscores, after the first also -[]<>/.·:+"
    )


def _args_type(
    function: Callable[..., Any], attributes: Mapping[str, Any], *, pass_job: bool
) -> type[TaskArgs]:
    """Return a dataclass with a function's parameters as fields, and these class attributes."""
    name = function.__qualname__
    fields: list[Any] = []
    for parameter, hint in _parameters(function, pass_job=pass_job):
        if parameter.name in _RESERVED or parameter.name in attributes:
            raise ConfigError(
                f"{name}: a parameter cannot be called {parameter.name!r}, which means something"
                " else of job args."
            )
        try:
            reader(hint)
        except TypeError as error:
            raise ConfigError(f"{name}, parameter {parameter.name}: {error}.") from None
        fields.append((parameter.name, hint, _field(parameter)))
    cls: Any = make_dataclass(
        function.__name__,
        fields,
        bases=(TaskArgs,),
        namespace={
            **attributes,
            "__doc__": f"Args of {name}.",
            "__qualname__": f"{name}.args_type",
        },
    )
    # The module that pickle looks in. From Python 3.12 on it would be this one.
    cls.__module__ = function.__module__
    # The name in errors about wrong arguments.
    cls.__init__.__qualname__ = f"{name}.args"
    return cast(type[TaskArgs], cls)


def _field(parameter: Parameter) -> Any:
    default, keyword = parameter.default, parameter.kind is Parameter.KEYWORD_ONLY
    if default is Parameter.empty:
        return field(kw_only=keyword)
    if type(default).__hash__ is None:
        # A dataclass rejects such a default, as instances would share it; so would calls.
        return field(default_factory=lambda: default, kw_only=keyword)
    return field(default=default, kw_only=keyword)


def _parameters(function: Callable[..., Any], *, pass_job: bool) -> list[tuple[Parameter, Any]]:
    """Return the parameters that are args, each with its type, or Any; ConfigError if they cannot
    be args.
    """
    name = function.__qualname__
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints(function, parameters)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{name} cannot be a task: its parameters cannot be read ({error}). Their types must be"
            " known when the module is loaded."
        ) from None
    if pass_job:
        first = parameters.pop(0) if parameters and parameters[0].kind in _POSITIONAL else None
        if first is None or not _takes_job(hints.get(first.name, Any)):
            raise ConfigError(
                f"{name} is to get its job: make it the first parameter, as `def"
                f" {function.__name__}(job: Job[Any], …)`."
            )
    for parameter in parameters:
        if stars := _STARS.get(parameter.kind):
            raise ConfigError(
                f"{name} cannot be a task with {stars}{parameter.name}: each parameter is one of"
                " the job's args, which have names."
            )
        if get_origin(hints.get(parameter.name)) is Job or hints.get(parameter.name) is Job:
            raise ConfigError(
                f"{name}: the parameter {parameter.name} is a job. To get it make it the first one"
                " and write `@workers.task(pass_job=True)`."
            )
    return [(parameter, hints.get(parameter.name, Any)) for parameter in parameters]


def _hints(function: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the types of parameters, with `Annotated`; not the return type, which may exist for
    type checkers only.
    """
    annotations = {
        parameter.name: parameter.annotation
        for parameter in parameters
        if parameter.annotation is not Parameter.empty
    }
    names = getattr(inspect.unwrap(function), "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__=annotations), names, include_extras=True)


def _takes_job(hint: Any) -> bool:
    return hint in (Any, object, Job) or get_origin(hint) is Job


def _worked(function: Callable[..., Any], *, pass_job: bool) -> Callable[[Job[Any]], Any]:
    """Return how a function works a job: it is called with the args, or with the job and the args
    if `pass_job`. Its result is the job's output.
    """
    call = _caller(function, pass_job=pass_job)
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def in_loop(job: Job[Any]) -> None:
            _record(await call(job))

        return in_loop

    @wraps(function)
    def in_thread(job: Job[Any]) -> Awaitable[None] | None:
        value = call(job)
        if inspect.isawaitable(value):
            # It is a coroutine function in a decorator that hides that.
            return _record_awaited(value)
        _record(value)
        return None

    return in_thread


def _caller(function: Callable[..., Any], *, pass_job: bool) -> Callable[[Job[Any]], Any]:
    parameters = inspect.signature(function).parameters.values()
    nameless = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_ONLY]
    if pass_job:
        nameless = nameless[1:]
    if nameless:

        def call(job: Job[Any]) -> Any:
            named = dict(vars(job.args))
            placed = [named.pop(name) for name in nameless]
            return function(*((job,) if pass_job else ()), *placed, **named)

        return call
    if pass_job:
        return lambda job: function(job, **vars(job.args))
    return lambda job: function(**vars(job.args))


async def _record_awaited(value: Awaitable[Any]) -> None:
    _record(await value)


def _record(value: Any) -> None:
    """Record the result of a function. The work is done, so errors in recording are only logged."""
    if value is None:
        return
    try:
        record_output(value)
    except ValueError as error:
        _logger.warning("what the task returned is not recorded as its output: %s", error)


_logger = logging.getLogger("riverui.engine")
