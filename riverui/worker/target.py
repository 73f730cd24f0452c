"""From `module:client` to a client that is ready to be started."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.errors import ConfigError


def find(target: str, folder: Path) -> object:
    """What `module:name` (or `module`, for its `client`) names; the module may lie in the folder.

    ConfigError where there is no such thing. What the module itself raises when it is imported is raised on.
    """
    module_name, _, path = target.partition(":")
    path = path or "client"
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise ConfigError(f"{target!r} is no module:client, like shop.jobs:client")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"there is no module {error.name!r}, neither in {folder} nor installed") from None
    found: object = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"there is no {path!r} in {module_name}{_instead(module)}")
        found = getattr(found, part)
    return found


async def resolve(found: object, target: str) -> Client:
    """The client itself, or the one that a function without arguments, async or not, gives."""
    if callable(found) and not isinstance(found, Client):
        try:
            inspect.signature(found).bind()
        except (TypeError, ValueError):
            raise ConfigError(f"{target} cannot be called without arguments, and is no client") from None
        found = found()
        if inspect.isawaitable(found):
            found = await found
    if not isinstance(found, Client):
        raise ConfigError(f"{target} is no riverui.Client but a {type(found).__name__}")
    return found


def queues(
    given: Mapping[str, QueueConfig], chosen: Sequence[str], concurrency: int | None
) -> dict[str, QueueConfig]:
    """The queues to work: the client's, or those of `name` and `name=max_workers`; ConfigError for none."""
    wanted: dict[str, int | None] = {}
    for text in chosen:
        name, equals, number = text.partition("=")
        if equals and not (number.isascii() and number.isdecimal()):
            raise ConfigError(f"--queue {text}: write it like {name or 'default'}=10")
        wanted[name] = int(number) if equals else None
    if not wanted:
        wanted = dict.fromkeys(given)
    if not wanted:
        raise ConfigError("the client has no queues: give it some, or name them by --queue default=10")
    return {
        name: _queue(name, given.get(name), concurrency if number is None else number)
        for name, number in wanted.items()
    }


def _queue(name: str, known: QueueConfig | None, max_workers: int | None) -> QueueConfig:
    if known is not None:
        return known if max_workers is None else replace(known, max_workers=max_workers)
    if max_workers is None:
        raise ConfigError(
            f"the client does not know the queue {name!r}: say how many jobs at once, {name}=10"
        )
    return QueueConfig(max_workers=max_workers)


def _instead(module: ModuleType) -> str:
    there = [name for name, value in vars(module).items() if isinstance(value, Client)]
    return f"; its clients are {', '.join(there)}" if there else ""
