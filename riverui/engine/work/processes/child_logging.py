"""Sends log records of a child process to its client, whose levels and handlers apply to them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from riverui.engine.work.attempt import running
from riverui.engine.work.log_capture import LEAST, only_the_root_objects
from riverui.engine.work.outcome import MAX_ERROR, make_storable
from riverui.engine.work.processes.messages import Logged, Setup
from riverui.engine.work.processes.transfer import plain_of

_MAX_MESSAGE = 1024 * 1024
"""Characters of one line: half of the size limit of an attempt's log."""
_MAX_NAME = 1_000
"""Characters of the name of a logger, a file or a function."""
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record."""


def logger_levels() -> dict[str, tuple[int, bool]]:
    """Return the level of each logger of this process that has one or is disabled, and whether it
    is disabled; the root's name is "".
    """
    levels = {"": (logging.getLogger().level, False)}
    # Another thread may add to it in the meantime.
    for name, logger in tuple(logging.Logger.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and (logger.level or logger.disabled):
            levels[name] = logger.level, logger.disabled
    return levels


def send_records(setup: Setup, send: Callable[[Logged], None]) -> None:
    """Send all records of this process to the client, instead of calling handlers."""
    for name, (level, disabled) in setup.levels.items():
        logger = logging.getLogger(name or None)
        logger.setLevel(level)
        logger.disabled = disabled
    logging.disable(setup.disabled_level)
    own = os.getpid()
    enabled_before, handlers_before = logging.Logger.isEnabledFor, logging.Logger.callHandlers

    def is_enabled_for(logger: logging.Logger, level: int) -> bool:
        return enabled_before(logger, level) or (
            setup.keeps_logs
            and level >= LEAST
            and running.get(None) is not None
            and only_the_root_objects(logger, level)
        )

    def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
        if os.getpid() == own:
            send(logged(record))
        else:
            # This is a copy of the process, forked by a job, without a client.
            handlers_before(logger, record)

    logging.Logger.isEnabledFor = is_enabled_for  # type: ignore[method-assign, assignment]
    logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign, assignment]


def logged(record: logging.LogRecord) -> Logged:
    """Return a record in the form to send."""
    attempt = running.get(None)
    try:
        message = record.getMessage()
    except Exception as error:
        message = f"{record.msg!r} with {record.args!r} could not be logged: {error!r}"
    trace = record.exc_text
    if trace is None and record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
    return Logged(
        job_id=None if attempt is None else attempt.row.id,
        name=make_storable(record.name, _MAX_NAME),
        level=record.levelno,
        message=make_storable(message, _MAX_MESSAGE),
        created=record.created,
        path=make_storable(record.pathname, _MAX_NAME),
        line=record.lineno,
        function=record.funcName and make_storable(record.funcName, _MAX_NAME),
        thread=record.threadName and make_storable(record.threadName, _MAX_NAME),
        trace=trace and make_storable(trace, MAX_ERROR),
        stack=record.stack_info and make_storable(record.stack_info, MAX_ERROR),
        extra=plain_of({key: value for key, value in vars(record).items() if key not in _OWN}),
    )


def handle(sent: Logged, pid: int) -> None:
    """Log a record of a child in this process, as if it came from this context."""
    logger = logging.getLogger(sent.name)
    if not logger.isEnabledFor(sent.level):
        return
    record = logging.makeLogRecord(
        {
            **sent.extra,
            "name": sent.name,
            "levelno": sent.level,
            "levelname": logging.getLevelName(sent.level),
            "msg": sent.message,
            "created": sent.created,
            "msecs": sent.created % 1 * 1000,
            "pathname": sent.path,
            "filename": sent.path.rpartition("/")[2],
            "module": sent.path.rpartition("/")[2].removesuffix(".py"),
            "lineno": sent.line,
            "funcName": sent.function,
            "process": pid,
            "threadName": sent.thread,
            "exc_text": sent.trace,
            "stack_info": sent.stack,
        }
    )
    logger.handle(record)
