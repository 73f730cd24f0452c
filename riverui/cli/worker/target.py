"""Finds the client that `module:client` names."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.errors import ConfigError, RiveruiError

_RIVERUI = str(Path(__file__).parents[2])


def find(target: str, folder: Path) -> object:
    """Return what `module:name` names (`module` alone: its `client`), also in the folder.

    Raise ConfigError where it is not found. An error of the module itself ends the process, see
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
    """After an error of the program's own code, print it with the program's part of the traceback
    and exit with code 1.

    Our own errors pass, and those for which `unless` is true.
    """
    try:
        yield
    except RiveruiError:
        raise
    except Exception as error:
        if unless(error):
            raise
        trace = error.__traceback__
        while trace is not None and _is_machinery(trace.tb_frame.f_code.co_filename):
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


def _is_machinery(file: str) -> bool:
    return file.startswith(("<frozen importlib", _RIVERUI, importlib.__file__))


async def resolve(found: object, target: str) -> Client:
    """Return the client itself, or what a function without arguments, async or not, returns.

    Raise ConfigError where that is no client.
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

    Raise ConfigError where there are none.
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
