"""Hands on what is logged inside jobs, whatever the program's own levels and handlers let through.

A logger that has no level of its own takes the root's, which is WARNING unless somebody has said
otherwise, and web servers do not. So while a client keeps the logs of its jobs, `logging.Logger`
asks here as well, for code inside those jobs only: records from INFO up are made, and go to the
job's log; the program's handlers get what they got before. A level that was given to a logger
itself, a logger that is disabled, its filters, and `logging.disable` hold in jobs as well.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from riverui.engine.work.attempt import client as of_client, running

_CallHandlers = Callable[[logging.Logger, logging.LogRecord], None]
_IsEnabledFor = Callable[[logging.Logger, int], bool]

LEAST = logging.INFO
"""What the job's log takes from loggers without a level of their own, whatever the root's level is.
"""


class JobOfRecord(logging.Filter):
    """Lets every record pass, and notes on those from inside a job which job that is."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `job_id` and `job_kind`, unless whoever logged it has done so."""
        attempt = running.get(None)
        if attempt is not None and not hasattr(record, "job_id"):
            record.job_id, record.job_kind = attempt.row.id, attempt.row.kind
        return True


def begin(client: object, handler: logging.Handler) -> None:
    """Hand what the client's jobs log to the handler from now on."""
    _capture.begin(client, handler)


def end(client: object) -> None:
    """Hand on nothing of that client's jobs any more; after the last one `logging` is as it was
    before.
    """
    _capture.end(client)


class _Capture:
    """Stands between `logging.Logger` and its own methods; one a process, as `logging` is."""

    def __init__(self) -> None:
        self._handlers: dict[object, logging.Handler] = {}
        self._installed = False
        self._lock = threading.Lock()
        self._is_enabled_for: _IsEnabledFor = logging.Logger.isEnabledFor
        self._call_handlers: _CallHandlers = logging.Logger.callHandlers

        def is_enabled_for(logger: logging.Logger, level: int) -> bool:
            return self._is_enabled_for(logger, level) or (
                level >= LEAST
                and self._handler() is not None
                and only_the_root_objects(logger, level)
            )

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            handler = self._handler()
            if handler is None or self._is_enabled_for(logger, record.levelno):
                self._call_handlers(logger, record)
            if handler is not None:
                handler.handle(record)

        self._ours = (is_enabled_for, call_handlers)

    def begin(self, client: object, handler: logging.Handler) -> None:
        with self._lock:
            self._handlers[client] = handler
            if not self._installed:
                self._installed = True
                self._is_enabled_for = logging.Logger.isEnabledFor
                self._call_handlers = logging.Logger.callHandlers
                self._put(*self._ours)

    def end(self, client: object) -> None:
        with self._lock:
            self._handlers.pop(client, None)
            there = (logging.Logger.isEnabledFor, logging.Logger.callHandlers)
            # Where somebody else (Sentry does it too) has come in between since, ours stay, and do
            # nothing.
            if self._installed and not self._handlers and there == self._ours:
                self._installed = False
                self._put(self._is_enabled_for, self._call_handlers)

    def _put(self, is_enabled_for: _IsEnabledFor, call_handlers: _CallHandlers) -> None:
        logging.Logger.isEnabledFor = is_enabled_for  # type: ignore[method-assign, assignment]
        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign, assignment]

    def _handler(self) -> logging.Handler | None:
        """Return who keeps the log of the job that this code is part of; None for nobody, and
        outside of jobs.
        """
        attempt = running.get(None)
        if attempt is None or attempt.done:
            return None
        client = of_client.get(None)
        return None if client is None else self._handlers.get(client)


def only_the_root_objects(logger: logging.Logger, level: int) -> bool:
    """Return whether a level that is not enabled is kept back by nothing but the root logger's
    level.
    """
    if logger.disabled or logger.manager.disable >= level:
        return False
    ancestor: logging.Logger = logger
    while ancestor.parent is not None:
        if ancestor.level:
            return False
        ancestor = ancestor.parent
    return True


_capture = _Capture()
