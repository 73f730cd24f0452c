"""A client of the JSON API, which raises the API's errors as exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from riverui.cli.terminal import one_line
from riverui.errors import ConfigError, Forbidden, NotFound, RiveruiError

Params = Mapping[str, str | int | Sequence[str]]
"""Query parameters; a list is a parameter that is repeated."""

M = TypeVar("M")

_MESSAGE_LENGTH = 400
"""Characters of an error message that are shown: more than any of ours has."""


class ApiError(RiveruiError):
    """The dashboard's API reported an error, or did not answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A response of the API."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """Their names in lower case."""
    signed_in_by: str = ""
    """How the request was authenticated, in words; empty if it was not."""


class Transport(Protocol):
    """Sends requests to the API."""

    def send(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return the response; `path` is relative to the dashboard, such as
        `/api/jobs?state=running`.
        """
        ...

    def read_figures(self, seconds: float) -> None:
        """Read the figures of the last hour, unless a running dashboard has read them."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs, each as unparsed JSON."""

    data: list[msgspec.Raw]
    next_cursor: str | None = None


class Api:
    """Returns the API's JSON, or raises its errors with their messages."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def text(self, path: str, params: Params | None = None) -> str:
        """Return the response's JSON as text."""
        return bytes(self.read(path, msgspec.Raw, params)).decode()

    def get(self, path: str, params: Params | None = None) -> Any:
        """Return the response's JSON."""
        return _json(self._ask("GET", path, params), Any)

    def read(self, path: str, model: type[M], params: Params | None = None) -> M:
        """Return the response's JSON as a model; its `Raw` fields are unparsed JSON."""
        return _json(self._ask("GET", path, params), model)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Send a request with a JSON body and return the response's JSON. `Raw` in the body is sent
        unchanged.
        """
        written = None if body is None else msgspec.json.encode(body)
        return _json(self._ask(method, path, None, written), Any)

    def read_figures(self, seconds: float) -> None:
        """Read the figures of the last hour for at most `seconds`, unless a running dashboard has
        read them.
        """
        self._transport.read_figures(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _ask(
        self, method: str, path: str, params: Params | None, body: bytes | None = None
    ) -> Answer:
        query = urlencode(dict(params), doseq=True) if params else ""
        answer = self._transport.send(method, f"{path}?{query}" if query else path, body)
        if not 200 <= answer.status < 300:
            raise _problem(answer)
        return answer


def _json(answer: Answer, model: type[M]) -> M:
    try:
        return msgspec.json.decode(answer.body, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError("this is not riverui: it did not return JSON of its API") from None


def _problem(answer: Answer) -> RiveruiError:
    """Return the exception for a status, with the message of the response."""
    message = _message(answer)
    if answer.status in (301, 302, 303, 307, 308):
        return ConfigError(
            f"the address redirects to {one_line(answer.headers.get('location', ''))}: give the URL"
            " of the dashboard itself, since tokens are not sent to another address"
        )
    if answer.status in (400, 405, 413):
        return ConfigError(message or f"the dashboard refused the request ({answer.status})")
    if answer.status == 401 and answer.signed_in_by:
        return ConfigError(f"the dashboard rejects {answer.signed_in_by}")
    if answer.status == 401:
        return ConfigError(
            "the dashboard requires authentication: set RIVERUI_API_TOKEN, or a user and password"
            " in the URL"
        )
    if answer.status == 403:
        return Forbidden(message or "The dashboard does not allow it.")
    if answer.status == 404:
        if message is None:
            return ConfigError(
                "riverui was not found at this address: give the URL of the dashboard"
            )
        return NotFound(message)
    return ApiError(message or f"the dashboard answered with status {answer.status}")


def _message(answer: Answer) -> str | None:
    """Return the message of the API's error; None if the response is not from riverui."""
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    message = found.get("message") if isinstance(found, dict) else None
    return one_line(message, _MESSAGE_LENGTH) if isinstance(message, str) else None
