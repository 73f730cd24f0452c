"""Settings as frozen dataclasses, validated on creation. Only the CLI fills them from the
environment.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.features.encryption.domain import ArgsKeys

ENV_COLORS = ("red", "amber", "green", "blue", "violet", "grey")
ALERT_LEVELS = ("warn", "critical")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warn", "error")

REDACT_KEYS = (
    *(
        "access_key",
        "api_key",
        "authorization",
        "card_number",
        "cookie",
        "credential",
        "credentials",
        "cvv",
    ),
    *("passphrase", "passwd", "password", "private_key", "secret", "secret_key", "ssn", "token"),
)
"""Keys whose values exports leave out by default."""

MAX_WORKERS = 64
"""Most processes of one server: each opens connections to the database."""

_PATH_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


@dataclass(frozen=True, kw_only=True, slots=True)
class DashboardConfig:
    """How the dashboard looks and what it may do. Creation raises ConfigError naming the
    invalid setting.
    """

    env_name: str = ""
    """Environment badge, e.g. "production"; empty hides it."""
    env_color: str = ""
    """One of red, amber, green, blue, violet, grey; empty is grey."""
    read_only: bool = False
    """Refuses every action, whatever the user's rights."""
    hide_args: bool = False
    """Job lists start without the args preview; each viewer can change it."""
    cors_origins: tuple[str, ...] = ()
    """Origins (`https://host[:port]`) whose pages may use the API under /api."""
    secret_key: str | None = None
    """Signs cookies (preferences, notices); None makes a key that lives as long as the process."""
    redact_keys: tuple[str, ...] = REDACT_KEYS
    """Exports leave out the values of args under keys that end like one of these."""
    page_timeout: timedelta = timedelta(seconds=3)
    """Time limit of each query behind a page."""
    action_timeout: timedelta = timedelta(seconds=10)
    """Time limit of each statement of an action."""
    api_timeout: timedelta = timedelta(seconds=30)
    """Time limit of a list of jobs that uses River UI's own parameters: some of them have
    no index.
    """
    count_cap: int = 10_000
    """Counts are exact up to this many jobs."""
    search_window: int = 50_000
    """Rows that one search step may examine if no index serves the filter."""
    encryption_keys: ArgsKeys | None = None
    """Opens encrypted args for viewers with the right to; None opens them for no one."""
    charts: bool = True
    """Computes figures over time from the rows of jobs while someone views them."""
    slo: str = ""
    """Objectives of queues, such as `default=99% < 30s, mail=99.9% < 5s`."""
    public_url: str = ""
    """Address of the dashboard, such as https://ops.example/river, for links in alerts."""
    alert_webhook: str = ""
    """Where incidents are sent: `shape+https://…` addresses, separated by spaces or commas."""
    alert_secret: str = ""
    """Signs alerts of the shape `json`; `whsec_` and base64, or any text."""
    alert_job_kind: str = ""
    """Kind of the job that is inserted for each alert; empty inserts none."""
    alert_job_queue: str = "default"
    """Queue of these jobs."""
    alert_level: str = "warn"
    """Least level of incidents that are sent: warn or critical."""

    def __post_init__(self) -> None:
        if self.env_color and self.env_color not in ENV_COLORS:
            raise ConfigError(
                f"env_color is {self.env_color!r}: use one of {', '.join(ENV_COLORS)}"
            )
        if len(self.env_name) > 40:
            raise ConfigError("env_name is longer than 40 characters")
        for origin in self.cors_origins:
            _check_origin(origin)
        if self.secret_key is not None and len(self.secret_key) < 16:
            raise ConfigError("secret_key is shorter than 16 characters")
        for name, span in (
            ("page_timeout", self.page_timeout),
            ("action_timeout", self.action_timeout),
            ("api_timeout", self.api_timeout),
        ):
            if span <= timedelta(0):
                raise ConfigError(f"{name} must be greater than zero")
        if self.public_url and not _is_public(self.public_url):
            raise ConfigError("public_url must be like https://host/path")
        if self.alert_level not in ALERT_LEVELS:
            raise ConfigError(f"alert_level must be {' or '.join(ALERT_LEVELS)}")
        self._check_alerts()
        if self.slo:
            # With msgspec, which `riverui --help` does without.
            from riverui.domain.health.slo import objectives

            objectives(self.slo)
        for name, number in (("count_cap", self.count_cap), ("search_window", self.search_window)):
            if number < 1:
                raise ConfigError(f"{name} must be at least 1")

    def _check_alerts(self) -> None:
        if self.alert_webhook or self.alert_job_kind:
            from riverui.features.incidents.alerts.domain import destinations

            destinations(self.alert_webhook, self.alert_job_kind, self.alert_job_queue)
        if self.alert_secret.startswith("whsec_"):
            try:
                b64decode(self.alert_secret.removeprefix("whsec_"), validate=True)
            except ValueError:
                raise ConfigError("alert_secret: what follows whsec_ must be base64") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeConfig:
    """Where and to whom `riverui serve` answers. Creation raises ConfigError naming the
    invalid setting.
    """

    host: str = ""
    """Address to bind; empty is 127.0.0.1 without authentication and every interface with it."""
    port: int = 8080
    prefix: str = ""
    """Path in front of every page, kept by the proxy: "" or e.g. "/river"."""
    root_path: str = ""
    """Path that a proxy strips before it passes a request on."""
    basic_user: str = ""
    basic_password: str = ""
    htpasswd: Path | None = None
    api_tokens: Path | str | None = None
    """Lines of tokens, or the file that holds them."""
    no_auth: bool = False
    """Lets anyone in, on any interface."""
    trust_proxy: bool = False
    """Trusts X-Forwarded-For, -Host, -Prefix and -Proto."""
    silent_healthchecks: bool = False
    max_connections: int = 10_000
    """Connections that one process serves at once: 5,000 viewers, whose browsers open a
    few each.
    """
    log_format: str = "text"
    log_level: str = "info"
    workers: int = 1
    """Processes that answer on the same port."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port {self.port} is not between 0 and 65535")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise ConfigError(f"workers {self.workers} is not between 1 and {MAX_WORKERS}")
        if self.max_connections < 1:
            raise ConfigError("max connections must be at least 1")
        _check_path("prefix", self.prefix)
        _check_path("root path", self.root_path)
        if bool(self.basic_user) != bool(self.basic_password):
            missing = "RIVER_BASIC_AUTH_PASS" if self.basic_user else "RIVER_BASIC_AUTH_USER"
            raise ConfigError(
                f"basic authentication needs both a user and a password: {missing} is not set"
            )
        if ":" in self.basic_user:
            raise ConfigError("RIVER_BASIC_AUTH_USER must not contain a colon")
        if self.log_format not in LOG_FORMATS:
            raise ConfigError(f"log format {self.log_format!r}: use {' or '.join(LOG_FORMATS)}")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError(f"log level {self.log_level!r}: use one of {', '.join(LOG_LEVELS)}")
        if not self.authenticated and not self.no_auth and not is_loopback(self.bind_host):
            raise ConfigError(
                f"refusing to listen on {self.bind_host} without authentication: "
                "set RIVER_BASIC_AUTH_USER and RIVER_BASIC_AUTH_PASS, or RIVERUI_HTPASSWD_FILE, "
                "or pass --no-auth"
            )

    @property
    def authenticated(self) -> bool:
        """Return whether everyone has to sign in."""
        return self.for_people or self.api_tokens is not None

    @property
    def for_people(self) -> bool:
        """Return whether there are users with passwords."""
        return bool(self.basic_user) or self.htpasswd is not None

    @property
    def bind_host(self) -> str:
        """Return the address to listen on."""
        return self.host or ("0.0.0.0" if self.authenticated else "127.0.0.1")  # noqa: S104 - behind sign-in

    @property
    def probe_host(self) -> str:
        """Return an address of this machine at which `bind_host` can be reached."""
        own = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - none is bound
        return own.get(self.bind_host, self.bind_host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. Of names, only localhost is
    trusted.
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        port = "" if parts.port is None else f":{parts.port}"
        plain = f"{parts.scheme}://{parts.hostname}{port}"
    except ValueError:
        plain = ""
    if origin != plain or not origin.startswith(("http://", "https://")):
        raise ConfigError(
            f"CORS origin {origin!r}: write it like https://host or https://host:port"
        )


def _is_public(address: str) -> bool:
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return valid and not (
        parts.query or parts.fragment or "@" in parts.netloc or address[-1] == "/"
    )


def _check_path(name: str, path: str) -> None:
    if not path:
        return
    if not path.startswith("/") or path.endswith("/"):
        raise ConfigError(f"{name} {path!r} must start with a slash and not end with one")
    if set(path) - _PATH_CHARS or any(part in ("", ".", "..") for part in path.split("/")[1:]):
        raise ConfigError(f"{name} {path!r} must be plain path segments: letters, digits, - . _ ~")
