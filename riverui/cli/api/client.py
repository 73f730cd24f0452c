"""What the API answers, and its problems as errors of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from riverui.cli.terminal import one_line
from riverui.errors import ConfigError, Forbidden, NotFound, RiveruiError

Params = Mapping[str, str | int | Sequence[str]]
"""The parameters of an address; a list stands for one that is repeated."""

M = TypeVar("M")

_TOLD = 400
"""Characters of an answer's message that are repeated: more than any of ours has."""


class ApiError(RiveruiError):
    """The dashboard's API did not do what was asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """Their names in lower case."""
    signed_in_by: str = ""
    """What the request was sent with, in words; empty for nothing."""


class Transport(Protocol):
    """Carries one request to the API and its answer back."""

    def send(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return the answer to a request for a path below the dashboard's own, such as
        `/api/jobs?state=running`.
        """
        ...

    def read_figures(self, seconds: float) -> None:
        """Read the figures of the last hour before anybody asks, where that is ours to do."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs, each as the text that was sent."""

    data: list[msgspec.Raw]
    next_cursor: str | None = None


class Api:
    """The API, whoever answers: its JSON, or an error in the words that it gave."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def text(self, path: str, params: Params | None = None) -> str:
        """Return the JSON of an answer as the text that was sent."""
        return bytes(self.read(path, msgspec.Raw, params)).decode()

    def get(self, path: str, params: Params | None = None) -> Any:
        """Return the JSON of an answer."""
        return _json(self._ask("GET", path, params), Any)

    def read(self, path: str, model: type[M], params: Params | None = None) -> M:
        """Return the JSON of an answer as a model; its `Raw` fields are the text that was sent."""
        return _json(self._ask("GET", path, params), model)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Ask for a change, and return the JSON of the answer. `Raw` in the body is sent as it
        stands.
        """
        written = None if body is None else msgspec.json.encode(body)
        return _json(self._ask(method, path, None, written), Any)

    def read_figures(self, seconds: float) -> None:
        """Read the figures of the last hour, for so many seconds at most, where they are not read
        anyway.
        """
        self._transport.read_figures(seconds)

    def close(self) -> None:
        """Let go of what it holds."""
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
        raise ConfigError("this is no riverui: what it answers is no JSON of its API") from None


def _problem(answer: Answer) -> RiveruiError:
    """Return the error that a status stands for, in the words of the answer."""
    told = _message(answer)
    if answer.status in (301, 302, 303, 307, 308):
        return ConfigError(
            f"the address leads to {one_line(answer.headers.get('location', ''))}: name the"
            " address of the dashboard itself, as no token is sent elsewhere"
        )
    if answer.status in (400, 405, 413):
        return ConfigError(told or f"the dashboard refused the request ({answer.status})")
    if answer.status == 401 and answer.signed_in_by:
        return ConfigError(f"the dashboard rejects {answer.signed_in_by}")
    if answer.status == 401:
        return ConfigError(
            "the dashboard does not know who asks: set RIVERUI_API_TOKEN, or a user and password"
            " in the URL, that it lets in"
        )
    if answer.status == 403:
        return Forbidden(told or "The dashboard does not allow it.")
    if answer.status == 404:
        if told is None:
            return ConfigError("there is no riverui at this address: name that of the dashboard")
        return NotFound(told)
    return ApiError(told or f"the dashboard answered with status {answer.status}")


def _message(answer: Answer) -> str | None:
    """Return what an error of the API says; None where it is none of ours."""
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    told = found.get("message") if isinstance(found, dict) else None
    return one_line(told, _TOLD) if isinstance(told, str) else None
