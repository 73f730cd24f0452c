"""The settings of `riverui serve` as a ServeConfig and a DashboardConfig."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riverui.cli.settings import Values
from riverui.errors import ConfigError
from riverui.web.config import REDACT_KEYS, DashboardConfig, ServeConfig

if TYPE_CHECKING:
    from riverui.features.encryption.domain import ArgsKeys


def serve_config(values: Values, *, probing: bool = False) -> ServeConfig:
    """Return the settings of the server; raise ConfigError if they contradict each other.

    `probing` is for health checks, which need no authentication.
    """
    level = values.text("log_level").lower() or "info"
    htpasswd = values.text("htpasswd")
    return ServeConfig(
        api_tokens=_api_tokens(values),
        basic_password=values.secret("basic_password"),
        basic_user=values.text("basic_user"),
        host=values.text("host"),
        htpasswd=Path(htpasswd) if htpasswd else None,
        log_format=values.text("log_format").lower() or "text",
        log_level="debug" if values.switch("debug") else {"warning": "warn"}.get(level, level),
        max_connections=values.number("max_connections"),
        no_auth=probing or bool(values.text("healthcheck")) or values.switch("no_auth"),
        port=values.number("port"),
        prefix=values.path("prefix"),
        root_path=values.path("root_path"),
        silent_healthchecks=values.switch("silent_healthchecks"),
        trust_proxy=values.switch("trust_proxy"),
        workers=values.number("workers"),
    )


def _api_tokens(values: Values) -> Path | str | None:
    lines, file = values.text("api_tokens"), values.text("api_tokens_file")
    if lines and file:
        raise ConfigError("RIVERUI_API_TOKENS and RIVERUI_API_TOKENS_FILE are both set: choose one")
    return Path(file) if file else lines or None


def dashboard_config(values: Values) -> DashboardConfig:
    """Return the settings of the dashboard; raise ConfigError for one that is not valid.

    A field with a setting of its name is read by the type of its default.
    """
    readers: dict[type, Callable[[str], Any]]
    readers = {bool: values.switch, str: values.text, timedelta: values.span, tuple: values.words}
    found = {
        field.name: readers[type(field.default)](field.name)
        for field in fields(DashboardConfig)
        if field.name in values.texts and type(field.default) in readers
    }
    found["encryption_keys"] = _encryption_keys(values)
    names = found["redact_keys"]
    found["redact_keys"] = () if names == ("none",) else names or REDACT_KEYS
    found["secret_key"] = values.secret("secret_key") or None
    return DashboardConfig(**found)


def _encryption_keys(values: Values) -> ArgsKeys | None:
    """Return the keys of encrypted args, None without a file; ConfigError if it is not valid."""
    name = values.text("encryption_keys")
    if not name:
        return None
    from riverui.features.encryption.domain import keys_of

    try:
        return keys_of(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file of encryption keys {name} cannot be read: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"the file of encryption keys {name}: {error}") from None
