"""Passes log records of jobs to their logs, independently of the program's levels and handlers.

A logger without a level has the root's, which is WARNING unless the program changes it, and web
servers do not. So while a client keeps the logs of its jobs, `logging.Logger` is patched, for code
of those jobs only: records from INFO up are created, and added to the job's log; the program's
handlers get the same records as before. Levels of loggers other than the root, disabled loggers,
filters, and `logging.disable` apply in jobs too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from riverui.engine.work.attempt import client as of_client, running

_CallHandlers = Callable[[logging.Logger, logging.LogRecord], None]
_IsEnabledFor = Callable[[logging.Logger, int], bool]

LEAST = logging.INFO
"""Lowest level in a job's log of loggers without a level of their own."""


class JobOfRecord(logging.Filter):
    """Passes every record, and adds its job to records of jobs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `job_id` and `job_kind`, unless the record has them."""
        attempt = running.get(None)
        if attempt is not None and not hasattr(record, "job_id"):
            record.job_id, record.job_kind = attempt.row.id, attempt.row.kind
        return True


def begin(client: object, handler: logging.Handler) -> None:
    """Pass the records of the client's jobs to the handler from now on."""
    _capture.begin(client, handler)


def end(client: object) -> None:
    """Stop passing records of that client's jobs; after the last client, restore `logging`."""
    _capture.end(client)


class _Capture:
    """Patches `logging.Logger`; there is one per process, as for `logging` itself."""

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
            # If other code has patched them since, as Sentry does, ours stay and do nothing.
            if self._installed and not self._handlers and there == self._ours:
                self._installed = False
                self._put(self._is_enabled_for, self._call_handlers)

    def _put(self, is_enabled_for: _IsEnabledFor, call_handlers: _CallHandlers) -> None:
        logging.Logger.isEnabledFor = is_enabled_for  # type: ignore[method-assign, assignment]
        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign, assignment]

    def _handler(self) -> logging.Handler | None:
        """Return the handler for the job whose code is running; None outside of jobs, and if no log
        is kept.
        """
        attempt = running.get(None)
        if attempt is None or attempt.done:
            return None
        client = of_client.get(None)
        return None if client is None else self._handlers.get(client)


def only_the_root_objects(logger: logging.Logger, level: int) -> bool:
    """Return whether only the root logger's level disables this level."""
    if logger.disabled or logger.manager.disable >= level:
        return False
    ancestor: logging.Logger = logger
    while ancestor.parent is not None:
        if ancestor.level:
            return False
        ancestor = ancestor.parent
    return True


_capture = _Capture()
