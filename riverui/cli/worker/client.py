"""Find the client that `module:client` names, and run it until a signal."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

from riverui.cli.worker.health import WorkerHealth, health_served
from riverui.cli.worker.settings import WorkerConfig
from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.engine.shutdown import leave_process, signals, stop_in_phases
from riverui.errors import ConfigError, RiveruiError

_RIVERUI = str(Path(__file__).parents[2])


def find(target: str, folder: Path) -> object:
    """Return what `module:name` names (`module` alone: its `client`), also in the folder.

    Raise ConfigError if it is not found. An error of the module itself ends the process, see
    `report_program_errors`.
    """
    module_name, _, path = target.partition(":")
    path = path or "client"
    if module_name.endswith(".py") or "/" in module_name:
        likely = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(f"{target!r} names a file: name the module, {likely}:{path}")
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise ConfigError(f"{target!r} is not MODULE:CLIENT, such as shop.jobs:client")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with report_program_errors(unless=partial(_is_missing, module_name)):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"module {error.name!r} not found, neither in {folder} nor installed"
        ) from None
    found: object = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{path!r} not found in {module_name}{_instead(module)}")
        found = getattr(found, part)
    return found


@contextmanager
def report_program_errors(
    unless: Callable[[Exception], bool] = lambda error: False,
) -> Iterator[None]:
    """On an error of the program's own code, print it with the program's part of the traceback and
    exit with code 1.

    RiveruiErrors, and errors for which `unless` returns true, are raised.
    """
    try:
        yield
    except RiveruiError:
        raise
    except Exception as error:
        if unless(error):
            raise
        trace = error.__traceback__
        while trace is not None and _is_import_code(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        traceback.print_exception(error.with_traceback(trace))
        raise SystemExit(1) from None


def _is_missing(module_name: str, error: Exception) -> bool:
    """Return whether the module itself was not found, rather than one that it imports."""
    return (
        isinstance(error, ModuleNotFoundError)
        and error.name is not None
        and f"{module_name}.".startswith(f"{error.name}.")
    )


def _is_import_code(file: str) -> bool:
    return file.startswith(("<frozen importlib", _RIVERUI, importlib.__file__))


async def resolve(found: object, target: str) -> Client:
    """Return the client, or the client that a function without arguments, async or not, returns.

    Raise ConfigError if that is not a client.
    """
    if callable(found) and not isinstance(found, Client):
        try:
            inspect.signature(found).bind()
        except (TypeError, ValueError):
            raise ConfigError(
                f"{target} cannot be called without arguments, and is not a client"
            ) from None
        with report_program_errors():
            found = found()
            if inspect.isawaitable(found):
                found = await found
    if not isinstance(found, Client):
        raise ConfigError(f"{target} is not a riverui.Client, its type is {type(found).__name__}")
    return found


def queues(
    given: Mapping[str, QueueConfig], chosen: Sequence[str], concurrency: int | None
) -> dict[str, QueueConfig]:
    """Return the queues to work: the client's, or those of `name` and `name=max_workers`.

    Raise ConfigError if there are none.
    """
    wanted: dict[str, int | None] = {}
    for text in chosen:
        name, equals, number = text.partition("=")
        if equals and not (number.isascii() and number.isdecimal()):
            raise ConfigError(f"--queue {text}: write it like {name or 'default'}=10")
        wanted[name] = int(number) if equals else None
    if not wanted:
        wanted = dict.fromkeys(given)
    if not wanted:
        raise ConfigError("the client has no queues: configure some, or pass --queue default=10")
    return {
        name: _queue(name, given.get(name), concurrency if number is None else number)
        for name, number in wanted.items()
    }


def _queue(name: str, known: QueueConfig | None, max_workers: int | None) -> QueueConfig:
    if known is not None:
        return known if max_workers is None else replace(known, max_workers=max_workers)
    if max_workers is None:
        raise ConfigError(
            f"the client has no queue {name!r}: say how many jobs at once, as in {name}=10"
        )
    return QueueConfig(max_workers=max_workers)


def _instead(module: ModuleType) -> str:
    there = [name for name, value in vars(module).items() if isinstance(value, Client)]
    return f"; its clients are {', '.join(there)}" if there else ""


log = logging.getLogger("riverui.worker")


async def run(client: Client, config: WorkerConfig) -> None:
    """Work until SIGINT or SIGTERM, then stop in three phases: wait for jobs, cancel them, exit.

    A further signal begins the next phase at once. Raise SchemaMissing, or
    another DatabaseError, if it cannot start. If jobs do not end even when cancelled, the process
    exits with code 1.
    """
    try:
        async with client.driver.reading() as db:
            await db.queues.row_get("default")
        await _work(client, config)
    finally:
        # Also closes the connections if it could not start.
        await client.stop()
    log.info("worker has stopped", extra={"client": client.id})


async def _work(client: Client, config: WorkerConfig) -> None:
    health = WorkerHealth(client)
    metrics = None
    if config.metrics:
        # Load prometheus_client only if metrics are enabled.
        from riverui.cli.worker.metrics import prometheus_plugin, text

        plugin = prometheus_plugin(client)

        async def metrics() -> bytes:
            return text(plugin)

    with signals() as asked:
        async with health_served(
            health.check,
            host=config.health_host,
            port=config.health_port,
            file=config.health_file,
            metrics=metrics,
        ) as address:
            await client.start()
            log.info("worker has started", extra=_about(client, address))
            await asked.get()
            health.stopping = True
            if not await stop_in_phases(
                client, asked, soft_stop=config.soft_stop, hard_stop=config.hard_stop
            ):
                leave_process()


def _about(client: Client, address: str) -> dict[str, object]:
    queues = (f"{name}={queue.max_workers}" for name, queue in sorted(client.config.queues.items()))
    about: dict[str, object] = {"client": client.id, "queues": " ".join(queues)}
    return about | ({"health": address} if address else {})
