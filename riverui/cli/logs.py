"""Log lines as key=value pairs or JSON, for every process that riverui runs."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_PLAIN = re.compile(r"[A-Za-z0-9._:/+~@-]+")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
"""Attributes of every record; any other was given as `extra` and is logged."""


def configure_logging(
    *,
    format: str,
    level: str,
    filters: Sequence[logging.Filter] = (),
    about: Mapping[str, object] | None = None,
) -> None:
    """Send all log records to stdout through one handler; libraries log from warnings on.

    `about` is added to each line.
    """
    handler = logging.StreamHandler(sys.stdout)
    for each in filters:
        handler.addFilter(each)
    handler.setFormatter((JsonFormatter if format == "json" else TextFormatter)(about))
    logging.basicConfig(handlers=[handler], level=_LEVELS[level], force=True)
    for name in ("uvicorn.error", "psycopg.pool", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, _LEVELS[level]))


def pairs(
    record: logging.LogRecord, about: Mapping[str, object] | None = None
) -> Iterator[tuple[str, object]]:
    """Yield the fields of a line: time (UTC), level, message, `about`, the extras, and a traceback
    last.
    """
    yield "time", datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    yield "level", "WARN" if record.levelno == logging.WARNING else record.levelname
    yield "msg", record.getMessage()
    yield from (about or {}).items()
    yield from ((key, value) for key, value in vars(record).items() if key not in _STANDARD)
    if record.exc_info:
        yield "traceback", logging.Formatter().formatException(record.exc_info)


class _Formatter(logging.Formatter):
    """Adds `about` to each line."""

    def __init__(self, about: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.about = about


class TextFormatter(_Formatter):
    """Formats a record as `key=value` pairs, quoted so that no value can forge a line or a pair."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and after it the traceback on indented lines."""
        fields = dict(pairs(record, self.about))
        traceback = fields.pop("traceback", None)
        line = " ".join(f"{key}={_plain(value)}" for key, value in fields.items())
        return f"{line}\n    " + str(traceback).replace("\n", "\n    ") if traceback else line


class JsonFormatter(_Formatter):
    """Formats a record as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII."""
        return json.dumps(dict(pairs(record, self.about)), default=str)


def _plain(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
