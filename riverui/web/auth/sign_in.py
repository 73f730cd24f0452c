"""Combine the configured ways to sign in into one authentication function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from riverui.errors import ConfigError
from riverui.web.auth.basic_auth import BasicAuth, Credentials, SingleUser
from riverui.web.auth.failures import Failures
from riverui.web.auth.htpasswd import HtpasswdFile
from riverui.web.auth.rights import Authenticate, anyone
from riverui.web.auth.tokens import TokenAuth, Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class SignIn:
    """Who may use the dashboard: `authenticate`, or `basic_auth` and `htpasswd`, or `no_auth`;
    programs also, or only, with `api_tokens`.
    """

    authenticate: Authenticate | None = None
    basic_auth: tuple[str, str] | None = None
    """User and password."""
    htpasswd: Path | str | None = None
    api_tokens: Path | str | None = None
    """Lines as `riverui token` prints them, or the Path of a file of them."""
    no_auth: bool = False
    """Whether the host app or the network already controls access."""
    failures: tuple[Failures | None, Failures | None, Failures | None] = (None, None, None)
    """Where failed sign-ins are counted: people by address; programs by address and by the
    beginning of the token. None counts in this process alone.
    """

    def decider(self) -> Authenticate:
        """Return the authentication function. Raise ConfigError if none is configured, or it is
        invalid.
        """
        person = self._person()
        if self.api_tokens is not None:
            return TokenAuth(Tokens(self.api_tokens), person, failures=self.failures[1:])
        if person is None:
            raise ConfigError(
                "say who may use the dashboard: authenticate=…, basic_auth=…, htpasswd=…,"
                " api_tokens=…, or no_auth=True where the host app already decides"
            )
        return person

    def _person(self) -> Authenticate | None:
        """Return the authentication of people; None if only programs are let in."""
        lists: list[Credentials] = []
        if self.basic_auth is not None:
            if not all(self.basic_auth):
                raise ConfigError("basic_auth needs both a user name and a password")
            lists.append(SingleUser(*self.basic_auth))
        if self.htpasswd is not None:
            lists.append(HtpasswdFile(Path(self.htpasswd)))
        if (self.authenticate is not None) + bool(lists) + self.no_auth > 1:
            raise ConfigError(
                "authenticate, no_auth, and basic_auth or htpasswd exclude each other: choose one"
            )
        if self.authenticate is not None:
            return self.authenticate
        if lists:
            return BasicAuth(*lists, failures=self.failures[0])
        return anyone if self.no_auth else None
