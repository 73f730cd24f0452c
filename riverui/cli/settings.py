"""The settings of `riverui serve` in one table, and how settings are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from riverui.errors import ConfigError
from riverui.web.config import ENV_COLORS, LOG_FORMATS, LOG_LEVELS


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting: a flag takes precedence over the environment, and that over the default."""

    name: str
    group: str
    help: str
    env: str = ""
    """Environment variable; with `secret`, `<env>_FILE` may name a file that holds the value
    instead.
    """
    flag: str = ""
    default: str = ""
    metavar: str = "TEXT"
    secret: bool = False
    switch: bool = False
    """On or off: the flag takes no value."""
    repeats: bool = False
    """The flag may be given several times; the variable separates its values by commas."""
    default_words: str = ""
    """The default as shown in the help, if it is not a plain value."""

    @property
    def env_names(self) -> tuple[str, ...]:
        """Return every environment variable that may give the value."""
        if not self.env:
            return ()
        return (self.env, f"{self.env}_FILE") if self.secret else (self.env,)


SETTINGS = (
    Setting(
        name="database_url",
        group="Database",
        env="DATABASE_URL",
        flag="--database-url",
        metavar="URL",
        secret=True,
        help=(
            "postgres://user:password@host/database, or sqlite:///jobs.db. Without it, libpq's"
            " PGHOST, PGDATABASE, … are used."
        ),
    ),
    Setting(
        name="database_password_file",
        group="Database",
        env="DATABASE_PASSWORD_FILE",
        metavar="FILE",
        default_words="the URL's password",
        help=(
            "File with the database's password, read again for each new connection: it may change"
            " while riverui runs."
        ),
    ),
    Setting(
        name="database_url_read",
        group="Database",
        env="DATABASE_URL_READ",
        flag="--database-url-read",
        metavar="URL",
        secret=True,
        default_words="DATABASE_URL alone",
        help=(
            "A standby of that database: what pages show is read there, and all else done on the"
            " primary."
        ),
    ),
    Setting(
        name="schema",
        group="Database",
        env="RIVER_SCHEMA",
        flag="--schema",
        metavar="NAME",
        default_words="the search path",
        help="Schema that holds River's tables.",
    ),
    Setting(
        name="api_timeout",
        group="Database",
        env="RIVERUI_API_TIMEOUT",
        flag="--api-timeout",
        metavar="TIME",
        default="30s",
        help="Time limit of each list of the JSON API that River UI's own parameters ask for.",
    ),
    Setting(
        name="host",
        group="Server",
        env="RIVER_HOST",
        flag="--host",
        metavar="ADDRESS",
        default_words="127.0.0.1; with authentication 0.0.0.0",
        help="Address to listen on.",
    ),
    Setting(
        name="port",
        group="Server",
        env="PORT",
        flag="--port",
        metavar="PORT",
        default="8080",
        help="Port to listen on.",
    ),
    Setting(
        name="prefix",
        group="Server",
        env="PATH_PREFIX",
        flag="--prefix",
        metavar="PATH",
        default_words="/",
        help="Path below which everything is served, e.g. /river; a proxy in front must keep it.",
    ),
    Setting(
        name="root_path",
        group="Server",
        env="RIVERUI_ROOT_PATH",
        flag="--root-path",
        metavar="PATH",
        help="Path that a proxy in front strips from requests; links include it.",
    ),
    Setting(
        name="trust_proxy",
        group="Server",
        env="RIVERUI_TRUST_PROXY",
        flag="--trust-proxy",
        switch=True,
        help=(
            "Trust X-Forwarded-For, -Host, -Prefix and -Proto. Only if nobody can bypass the proxy."
        ),
    ),
    Setting(
        name="max_connections",
        group="Server",
        env="RIVERUI_MAX_CONNECTIONS",
        flag="--max-connections",
        metavar="NUMBER",
        default="10000",
        help="Connections of one process at once; further ones get a 503.",
    ),
    Setting(
        name="workers",
        group="Server",
        env="RIVERUI_WORKERS",
        flag="--workers",
        metavar="NUMBER",
        default="1",
        help="Processes that answer on the same port, each with connections of its own.",
    ),
    Setting(
        name="silent_healthchecks",
        group="Server",
        env="RIVERUI_SILENT_HEALTHCHECKS",
        flag="--silent-healthchecks",
        switch=True,
        help="Leave health checks out of the request log.",
    ),
    Setting(
        name="healthcheck",
        group="Server",
        flag="--healthcheck",
        metavar="NAME",
        help="Do not serve: check the running server's health (minimal or complete), exit 0 or 1.",
    ),
    Setting(
        name="basic_user",
        group="Access",
        env="RIVER_BASIC_AUTH_USER",
        metavar="NAME",
        secret=True,
        help="User name of the one user of basic authentication.",
    ),
    Setting(
        name="basic_password",
        group="Access",
        env="RIVER_BASIC_AUTH_PASS",
        metavar="PASSWORD",
        secret=True,
        help="That user's password.",
    ),
    Setting(
        name="htpasswd",
        group="Access",
        env="RIVERUI_HTPASSWD_FILE",
        flag="--htpasswd",
        metavar="FILE",
        help="File of users: bcrypt (`htpasswd -B`), apr1 or SHA. Changes take effect at once.",
    ),
    Setting(
        name="api_tokens",
        group="Access",
        env="RIVERUI_API_TOKENS",
        metavar="LINES",
        help=(
            "API tokens, each as the line that `riverui token` prints, separated by commas or"
            " newlines."
        ),
    ),
    Setting(
        name="api_tokens_file",
        group="Access",
        env="RIVERUI_API_TOKENS_FILE",
        flag="--api-tokens-file",
        metavar="FILE",
        help="File of such lines. Changes take effect at once.",
    ),
    Setting(
        name="no_auth",
        group="Access",
        env="RIVERUI_NO_AUTH",
        flag="--no-auth",
        switch=True,
        help="Let in anyone who can reach the port, on any address.",
    ),
    Setting(
        name="read_only",
        group="Access",
        env="RIVERUI_READ_ONLY",
        flag="--read-only",
        switch=True,
        help="Show everything, change nothing.",
    ),
    Setting(
        name="cors_origins",
        group="Access",
        env="CORS_ORIGINS",
        flag="--cors-origins",
        metavar="ORIGINS",
        help="Comma-separated origins (https://host) whose pages may use the API under /api.",
    ),
    Setting(
        name="redact_keys",
        group="Access",
        env="RIVERUI_REDACT_KEYS",
        flag="--redact-keys",
        metavar="NAMES",
        default_words="password, token, secret, api_key and the like",
        help=(
            "Comma-separated names: exports leave out args under keys with these endings; none"
            " keeps all."
        ),
    ),
    Setting(
        name="encryption_keys",
        group="Access",
        env="RIVERUI_ENCRYPTION_KEYS_FILE",
        flag="--encryption-keys-file",
        metavar="FILE",
        default_words="encrypted args stay closed",
        help=(
            "File of keys, each 32 bytes in base64 on a line of its own: who has the right"
            " jobs.decrypt can open encrypted args."
        ),
    ),
    Setting(
        name="secret_key",
        group="Access",
        env="RIVERUI_SECRET_KEY",
        metavar="KEY",
        secret=True,
        default_words="a random one at each start",
        help=(
            "Signs the cookies that hold preferences; at least 16 characters, the same for all"
            " processes."
        ),
    ),
    Setting(
        name="env_name",
        group="Look",
        env="RIVERUI_ENV_NAME",
        flag="--env-name",
        metavar="NAME",
        help="Environment badge on every page, e.g. production.",
    ),
    Setting(
        name="env_color",
        group="Look",
        env="RIVERUI_ENV_COLOR",
        flag="--env-color",
        metavar="COLOR",
        default_words="grey",
        help=f"Colour of the badge: {', '.join(ENV_COLORS)}.",
    ),
    Setting(
        name="hide_args",
        group="Look",
        env="RIVER_JOB_LIST_HIDE_ARGS_BY_DEFAULT",
        flag="--hide-args",
        switch=True,
        help="Job lists start without the arguments; each viewer can show them.",
    ),
    Setting(
        name="charts",
        group="Look",
        env="RIVERUI_CHARTS",
        flag="--charts",
        metavar="on|off",
        default="on",
        help="Figures over time, read out of the rows of jobs while pages are open at them.",
    ),
    Setting(
        name="alert_webhook",
        group="Alerts",
        env="RIVERUI_ALERT_WEBHOOK",
        metavar="ADDRESSES",
        secret=True,
        default_words="none are sent",
        help=(
            "Where incidents are sent, separated by commas or spaces: json+https://…,"
            " slack+https://…, pagerduty+https://KEY@events.pagerduty.com/v2/enqueue,"
            " alertmanager+https://…/api/v2/alerts."
        ),
    ),
    Setting(
        name="alert_secret",
        group="Alerts",
        env="RIVERUI_ALERT_SECRET",
        metavar="KEY",
        secret=True,
        help="Signs the alerts of the shape json.",
    ),
    Setting(
        name="alert_job_kind",
        group="Alerts",
        env="RIVERUI_ALERT_JOB_KIND",
        metavar="KIND",
        default_words="none",
        help="Kind of a job that is inserted for each alert.",
    ),
    Setting(
        name="alert_job_queue",
        group="Alerts",
        env="RIVERUI_ALERT_JOB_QUEUE",
        metavar="QUEUE",
        default="default",
        help="Queue of these jobs.",
    ),
    Setting(
        name="alert_level",
        group="Alerts",
        env="RIVERUI_ALERT_LEVEL",
        metavar="LEVEL",
        default="warn",
        help="Least level of incidents that are sent: warn or critical.",
    ),
    Setting(
        name="slo",
        group="Alerts",
        env="RIVERUI_SLO",
        metavar="OBJECTIVES",
        default_words="none",
        help="Objectives of queues, such as default=99% < 30s, mail=99.9% < 5s.",
    ),
    Setting(
        name="public_url",
        group="Alerts",
        env="RIVERUI_PUBLIC_URL",
        metavar="URL",
        default_words="no links",
        help="Address of the dashboard, such as https://ops.example/river, for links in alerts.",
    ),
    Setting(
        name="log_level",
        group="Logs",
        env="RIVER_LOG_LEVEL",
        flag="--log-level",
        metavar="LEVEL",
        default="info",
        help=f"{', '.join(LOG_LEVELS)}.",
    ),
    Setting(
        name="log_format",
        group="Logs",
        env="RIVER_LOG_FORMAT",
        flag="--log-format",
        metavar="FORMAT",
        default="text",
        help=f"{' or '.join(LOG_FORMATS)}.",
    ),
    Setting(
        name="debug",
        group="Logs",
        env="RIVER_DEBUG",
        flag="--debug",
        switch=True,
        help="The same as log level debug.",
    ),
)
"""In the order of the help and the documentation."""

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Values:
    """The text of each setting, from its flag, the environment or its default."""

    texts: Mapping[str, str]
    settings: Sequence[Setting] = SETTINGS
    flagged: frozenset[str] = frozenset()
    """The settings whose value came from a flag."""

    def text(self, name: str) -> str:
        """Return the value without surrounding spaces; empty if not set."""
        return self.texts[name].strip()

    def secret(self, name: str) -> str:
        """Return the value with surrounding spaces."""
        return self.texts[name]

    def number(self, name: str) -> int:
        """Return the value as a whole number; raise ConfigError if it is not one."""
        text = self.text(name)
        if not (text.isascii() and text.isdecimal()):
            raise ConfigError(f"{self._names(name)} is {text!r}: it must be a whole number")
        return int(text)

    def switch(self, name: str) -> bool:
        """Return whether it is on (1, true, yes, on); raise ConfigError for any other word."""
        text = self.text(name).lower()
        if text not in _YES | _NO:
            raise ConfigError(f"{self._names(name)} is {text!r}: use 1 or true, 0 or false")
        return text in _YES

    def span(self, name: str) -> timedelta:
        """Return the value as a time (20s, 1m30s, 500ms); raise ConfigError if it is not one."""
        from riverui.domain.time import go_duration

        text = self.text(name)
        try:
            return go_duration(text)
        except ValueError:
            raise ConfigError(
                f"{self._names(name)} is {text!r}: write it like 20s or 1m30s"
            ) from None

    def path(self, name: str) -> str:
        """Return the value as a URL path without its trailing slash; empty for the root."""
        return self.text(name).rstrip("/")

    def words(self, name: str) -> tuple[str, ...]:
        """Return the parts of a comma-separated list."""
        return tuple(word.strip() for word in self.text(name).split(",") if word.strip())

    def _names(self, name: str) -> str:
        """Return the setting's names for an error message."""
        setting = next(setting for setting in self.settings if setting.name == name)
        return setting.flag if name in self.flagged or not setting.env else setting.env


def choose(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    settings: Sequence[Setting] = SETTINGS,
) -> Values:
    """Return the text of every setting; `flags` are click's values.

    Raise ConfigError if a `*_FILE` cannot be read or a value is given twice.
    """
    given = {name: _flag_text(value) for name, value in flags.items()}
    chosen = {
        setting.name: _choose(setting, given.get(setting.name), environ) for setting in settings
    }
    flagged = frozenset(name for name, text in given.items() if text is not None)
    return Values(texts=chosen, settings=settings, flagged=flagged)


def _flag_text(value: Any) -> str | None:
    """Return click's value of a flag as text; None if it was not given."""
    if isinstance(value, tuple):
        return ",".join(value) or None
    return {True: "1", False: None}.get(value, value)


def database_url(values: Values, environ: Mapping[str, str]) -> str | None:
    """Return the database's URL, or None if libpq reads it from `PG*`.

    Raise ConfigError if no database is configured.
    """
    if url := values.text("database_url"):
        return with_password_file(url, values)
    if any(environ.get(name) for name in ("PGDATABASE", "PGHOST", "PGHOSTADDR", "PGSERVICE")):
        return with_password_file("", values) or None
    raise ConfigError(
        "no database: set DATABASE_URL (or PGHOST, PGDATABASE, …), or try `riverui demo`"
    )


def with_password_file(url: str, values: Values) -> str:
    """Return the URL with the file that holds its password, if one is configured."""
    from urllib.parse import quote

    file = values.texts.get("database_password_file", "").strip()
    if not file:
        return url
    if "://" not in url:
        escaped = file.replace("\\", r"\\").replace("'", r"\'")
        return f"{url} password_file='{escaped}'".strip()
    return f"{url}{'&' if '?' in url else '?'}password_file={quote(file, safe='')}"


def settings_options(
    *names: str, settings: Sequence[Setting] = SETTINGS
) -> Callable[[click.Command], click.Command]:
    """Return a decorator that adds the flags of these settings to a command.

    Without names it adds all of them.
    """

    def add(command: click.Command) -> click.Command:
        for setting in settings:
            if setting.flag and (not names or setting.name in names):
                command.params.append(_option(setting))
        return command

    return add


def _option(setting: Setting) -> click.Option:
    return click.Option(
        [setting.flag, setting.name],
        default=False if setting.switch else None,
        help=help_text(setting),
        is_flag=setting.switch,
        metavar=None if setting.switch else setting.metavar,
        multiple=setting.repeats,
    )


def help_text(setting: Setting) -> str:
    """Return its help with variable and default, for `--help`."""
    default = setting.default_words or setting.default
    notes = [f"env {setting.env}"] if setting.env and setting.flag else []
    notes += [f"default {default}"] if default else []
    return f"{setting.help} [{'; '.join(notes)}]" if notes else setting.help


def _choose(setting: Setting, flag: str | None, environ: Mapping[str, str]) -> str:
    if flag is not None:
        return flag
    value = environ.get(setting.env, "") if setting.env else ""
    file = environ.get(f"{setting.env}_FILE", "") if setting.secret else ""
    if not file:
        return value or setting.default
    if value:
        raise ConfigError(f"{setting.env} and {setting.env}_FILE are both set: choose one")
    try:
        # Editors and `echo` end a file with a newline, which does not belong to the secret.
        text = Path(file).read_text().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{setting.env}_FILE: cannot read {file}: {reason}") from None
    if not text:
        raise ConfigError(f"{setting.env}_FILE: {file} is empty")
    return text
