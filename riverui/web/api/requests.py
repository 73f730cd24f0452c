"""Parse requests of programs, JSON bodies and parameters, in the way of River UI."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from riverui.domain.values import is_bigint
from riverui.errors import BadRequest
from riverui.web.api.models import Body
from riverui.web.http.forms import body

B = TypeVar("B", bound=Body)

_PLACE = re.compile(r"(?:field `|at `\$\.)(\w+)(\[)?")
"""Match the field that msgspec names, and `[…]` if an item of it is meant."""
_ESCAPE = re.compile(
    r"\\(?:u(?:[dD][89abAB]..\\u[dD][c-fC-F]|(?P<half>[dD][89a-fA-F]..))|.)", re.DOTALL
)
"""An escape in JSON; `half` matches half a surrogate pair."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
MAX_ROWS = 1_000
"""Most rows in an answer, as in River UI."""


async def payload(request: Request) -> Mapping[str, Any]:
    """Return the posted JSON object; empty if the body is empty.

    Raise BadRequest for anything else, 413 above 1 MiB. The content type is not checked: River UI's
    own pages send JSON as text/plain. Pages of other sites are kept out by the cross-origin check,
    which every change passes before its body is read (`gate.GateMiddleware`).
    """
    text = await _json(request)
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


async def read(request: Request, model: type[B]) -> B:
    """Return the posted JSON as a model. Raise BadRequest if it does not fit."""
    return convert(await payload(request), model)


async def read_exact(request: Request, model: type[B]) -> B:
    """Return the posted JSON as a model whose `Raw` fields hold the text exactly as sent. Raise
    BadRequest if it does not fit.
    """
    text = (await _json(request)).strip() or "{}"
    if not text.startswith("{"):
        raise BadRequest("The body must be a JSON object.")
    try:
        return msgspec.json.decode(text, type=model)
    except msgspec.ValidationError as error:
        raise BadRequest(_refusal(model, {}, str(error))) from None
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest("The body is not valid JSON.") from None


def convert(posted: Mapping[str, Any], model: type[B]) -> B:
    """Return an object as a model. Raise BadRequest, with the model's message, if it does
    not fit.
    """
    posted = model.tidied(posted)
    try:
        return msgspec.convert(posted, model)
    except msgspec.ValidationError as error:
        raise BadRequest(_refusal(model, posted, str(error))) from None


def integer(text: str) -> int | None:
    """Return the text as a whole number; None if it is not one, or exceeds a bigint."""
    found = int(text) if _INTEGER.fullmatch(text) else None
    return found if found is not None and is_bigint(found) else None


def first(request: Request, name: str) -> str:
    """Return a query parameter's first value; empty if it is missing."""
    return next(iter(request.query_params.getlist(name)), "")


def limit(request: Request, default: int, *, least: int = 0, most: int = MAX_ROWS) -> int:
    """Return the parameter `limit`, or `default` if it is missing. Raise BadRequest unless it is
    between `least` and `most`.
    """
    text = first(request, "limit")
    if not text:
        return default
    number = integer(text)
    if number is None:
        raise BadRequest(f"`limit` is {text[:40]!r}: it must be a whole number.")
    if not least <= number <= most:
        raise BadRequest(f"`limit` must be between {least} and {most:,}.")
    return number


def listed(request: Request, name: str, most: int) -> Sequence[str]:
    """Return every value of a parameter. Raise BadRequest if there are more than `most`."""
    values = request.query_params.getlist(name)
    if len(values) > most:
        raise BadRequest(f"`{name}` can be given at most {most:,} times.")
    return values


async def _json(request: Request) -> str:
    """Return the posted text. Raise BadRequest if it is not Unicode, or has an escape for half a
    surrogate pair, which can be neither stored nor returned.
    """
    try:
        text = (await body(request)).decode()
    except UnicodeDecodeError:
        raise BadRequest("The body is not valid UTF-8.") from None
    for found in _ESCAPE.finditer(text) if r"\u" in text else ():
        if found["half"]:
            raise BadRequest(
                f"The body is not valid JSON: \\u{found['half']} is half of a surrogate pair."
            )
    return text


def _refusal(model: type[Body], posted: Mapping[str, Any], message: str) -> str:
    """Return the model's message for an error of msgspec, whose text ends with the place ("… - at
    `$.state[0]`") or names a missing field ("Object missing required field `ids`").
    """
    place = _PLACE.search(message)
    if place is None:
        return message
    name, item = place.groups()
    words = (item and model.refusals.get(f"{name}[]")) or model.refusals.get(name)
    if words is None:
        return f"`{name}`: {message}."
    return words if isinstance(words, str) else words(posted.get(name))


def _refuse(constant: str) -> object:
    raise ValueError(constant)
