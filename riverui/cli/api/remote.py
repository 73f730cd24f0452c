"""The API of a running dashboard, over HTTP."""

from __future__ import annotations

import base64
import http.client
import ssl
from urllib.parse import SplitResult, unquote, urlsplit

from riverui import __version__
from riverui.cli.api.client import Answer, ApiError
from riverui.errors import ConfigError

_TIMEOUT_SECONDS = 60.0
"""Seconds to wait for a connection, and for each part of an answer: a list of the API may take half
a minute.
"""
_MAX_BYTES = 64 * 1024 * 1024
"""Bytes of an answer: those of the API hold some 20 million characters at most."""
_SHOWN = 200
"""Characters of an address or a reason that a message repeats."""


class RemoteApi:
    """A dashboard at a URL. Redirects are reported and not followed."""

    def __init__(self, url: str, *, token: str = "", timeout: float = _TIMEOUT_SECONDS) -> None:
        """Raise ConfigError if the URL is not valid; `timeout` is in seconds."""
        self._timeout = timeout
        parts = _parts(url)
        assert parts.hostname is not None
        self._host, self._port, self._secure = parts.hostname, parts.port, parts.scheme == "https"
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:_SHOWN]
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json", "User-Agent": f"riverui/{__version__}"}
        self._signed_in_by = ""
        if parts.username is not None:
            if token:
                raise ConfigError("a token and a user in the URL are both given: choose one")
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
            self._signed_in_by = "the user and password in the URL"
        elif token:
            if not (token.isascii() and token.isprintable()):
                raise ConfigError("RIVERUI_API_TOKEN contains characters that a token cannot have")
            self._headers["Authorization"] = f"Bearer {token}"
            self._signed_in_by = "the token in RIVERUI_API_TOKEN (or its file)"
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return the response; raise ApiError if the dashboard does not answer."""
        try:
            if self._connection is not None and method == "GET":
                try:
                    return self._exchange(self._connection, method, path, body)
                except (http.client.HTTPException, OSError):
                    # It was kept open and may have been closed there meanwhile; reading twice
                    # does no harm.
                    self.close()
            elif self._connection is not None:
                self.close()
            self._connection = self._connect()
            return self._exchange(self._connection, method, path, body)
        except ssl.SSLCertVerificationError as error:
            self.close()
            reason = error.verify_message or str(error)
            raise ApiError(f"{self._shown}: its certificate is not trusted: {reason}") from None
        except TimeoutError:
            self.close()
            raise ApiError(f"{self._shown} did not answer in time") from None
        except (http.client.HTTPException, OSError) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ApiError(f"{self._shown} cannot be reached: {str(reason)[:_SHOWN]}") from None

    def read_figures(self, seconds: float) -> None:
        """Do nothing: the dashboard has read them."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(
                self._host,
                self._port,
                timeout=self._timeout,
                context=ssl.create_default_context(),
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> Answer:
        headers = self._headers
        if body is not None:
            headers = {**headers, "Content-Type": "application/json"}
        connection.request(method, self._path + path, body, headers)
        answer = connection.getresponse()
        read = answer.read(_MAX_BYTES + 1)
        if len(read) > _MAX_BYTES:
            raise ApiError(f"{self._shown} answered more than {_MAX_BYTES:,} bytes")
        return Answer(
            status=answer.status,
            body=read,
            headers={name.lower(): value for name, value in answer.getheaders()},
            signed_in_by=self._signed_in_by,
        )


def _parts(url: str) -> SplitResult:
    shown = url.rpartition("@")[2][:_SHOWN]
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not (fits and url.isascii() and url.isprintable() and " " not in url):
        raise ConfigError(f"the API's URL {shown!r} must be like https://jobs.example/river")
    if parts.query or parts.fragment:
        raise ConfigError(f"the API's URL {shown!r} must end with its path: name the dashboard")
    return parts
