"""What a program sends: JSON bodies and parameters, read as River UI reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from riverui.actions.jobs import MAX_IDS
from riverui.domain.numbers import is_bigint
from riverui.errors import BadRequest
from riverui.web.http.forms import body

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MOST_ROWS = 1_000


async def payload(request: Request) -> Mapping[str, Any]:
    """Return the posted JSON object, empty where nothing was posted.

    Raises BadRequest for what is none, 413 above 1 MiB. The content type is not looked at: River
    UI's own pages send JSON as text/plain. What keeps pages of other sites from sending some is the
    cross-origin check, which every change has passed before it is read (`gate.GateMiddleware`).
    """
    text = await body(request)
    if not text:
        return {}
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadRequest("The body is not valid JSON.") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadRequest("The body must be a JSON object.")
    return found


def ids(posted: Mapping[str, Any]) -> tuple[int, ...]:
    """The field `ids`: 1 to 1,000 numbers, each as a number or as text, in the order given, each
    once.
    """
    values = posted.get("ids")
    if values is None:
        raise BadRequest("`ids` is missing: give the ids of the jobs.")
    if not isinstance(values, list):
        raise BadRequest("`ids` must be a list of job ids.")
    if not values:
        raise BadRequest("`ids` is empty: give at least one job id.")
    if len(values) > MAX_IDS:
        raise BadRequest(f"`ids` must not hold more than {MAX_IDS:,} ids.")
    return tuple(dict.fromkeys(map(_id, values)))


def integer(text: str) -> int | None:
    """A whole number that a bigint holds; None for any other text."""
    found = int(text) if _INTEGER.fullmatch(text) else None
    return found if found is not None and is_bigint(found) else None


def first(request: Request, name: str) -> str:
    """A query parameter's first value; empty where there is none."""
    return next(iter(request.query_params.getlist(name)), "")


def limit(request: Request, default: int, *, least: int = 0) -> int:
    """The parameter `limit`: `least` to 1,000, or else the default."""
    text = first(request, "limit")
    if not text:
        return default
    number = integer(text)
    if number is None:
        raise BadRequest(f"`limit` is {text[:40]!r}: it must be a whole number.")
    if not least <= number <= _MOST_ROWS:
        raise BadRequest(f"`limit` must be between {least} and {_MOST_ROWS:,}.")
    return number


def listed(request: Request, name: str, most: int) -> Sequence[str]:
    """Every value of a parameter that may be repeated up to `most` times."""
    values = request.query_params.getlist(name)
    if len(values) > most:
        raise BadRequest(f"`{name}` can be given at most {most:,} times.")
    return values


def _id(value: object) -> int:
    number = None
    if isinstance(value, str):
        number = integer(value)
    elif type(value) is int and is_bigint(value):
        number = value
    if number is None:
        raise BadRequest(f"`ids`: {str(value)[:40]!r} is not a job id.")
    return number


def _refuse(constant: str) -> object:
    raise ValueError(constant)
