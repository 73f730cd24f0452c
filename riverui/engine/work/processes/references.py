"""How a worker gets into a child process: pickled, so functions and classes by their names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from riverui.engine.args.job_args import decoder
from riverui.engine.work.worker import WorkUnit
from riverui.engine.work.workers import name_of, plain_function
from riverui.errors import ConfigError


class LoadedWork(NamedTuple):
    """How a child works jobs of one kind."""

    run: Callable[[Any], Any]
    decode: Callable[[str], Any]


def pickled(unit: WorkUnit) -> bytes:
    """Return what a child needs to work jobs of a kind; ConfigError where it cannot be sent."""
    what = plain_function(unit.worker) or unit.worker
    try:
        return pickle.dumps((what, unit.args_type), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ConfigError(
            f"{name_of(unit.worker)} cannot be sent to a process of its own ({error}): a function"
            " must be what its module has under its name, and a worker must hold only what can be"
            " pickled; let it open files and connections when it first needs them."
        ) from error


def loaded(sent: bytes) -> LoadedWork:
    """Return how to work the jobs of what was sent. It raises what the import of its module
    raises.
    """
    what, args_type = pickle.loads(sent)  # noqa: S301 - the client has made it
    return LoadedWork(getattr(what, "work", what), decoder(args_type))
