"""Write what the documents say about settings from the tables that the command reads.

`python -m tests.documents` rewrites `.env.example`, docs/reference/configuration.md and the chart's
values.schema.json;
tests/test_docs.py fails where they are not as this would write them.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from riverui.cli.api.connect import CLIENT_SETTINGS
from riverui.cli.settings import SETTINGS, Setting
from riverui.cli.worker.settings import WORKER_SETTINGS
from riverui.web.config import DashboardConfig

ROOT = Path(__file__).parent.parent
ENV_EXAMPLE = ROOT / ".env.example"
CONFIGURATION = ROOT / "docs/reference/configuration.md"
VALUES_SCHEMA = ROOT / "deploy/helm/riverui/values.schema.json"

_OF_THE_CHART = {
    *("DATABASE_PASSWORD_FILE", "PATH_PREFIX", "PORT", "RIVERUI_API_TOKENS"),
    *("RIVERUI_API_TOKENS_FILE", "RIVERUI_ENCRYPTION_KEYS_FILE", "RIVERUI_HTPASSWD_FILE"),
    *("RIVERUI_NO_AUTH", "RIVER_HOST", "RIVER_SCHEMA"),
}
"""Settings of the dashboard that have values of their own in the chart, as secret ones have."""

_HEAD = """\
# Settings of `riverui serve`. To set one, remove the # in front of it; the values shown are the
# defaults. Secrets may also come from a file, which DATABASE_URL_FILE, RIVER_BASIC_AUTH_PASS_FILE,
# … name.
"""


def env_example() -> str:
    """Return `.env.example`: every variable of `riverui serve`, by group, with its default."""
    text = _HEAD
    for group, settings in _groups(SETTINGS).items():
        variables = [setting for setting in settings if setting.env]
        text += f"\n# {group}\n" if variables else ""
        for setting in variables:
            default = setting.default_words or setting.default or "off" * setting.switch
            text += f"# {setting.help}" + (f" Default: {default}.\n" if default else "\n")
            text += f"#{setting.env}={setting.default}\n"
    return text


def configuration() -> str:
    """Return docs/reference/configuration.md, the rows of its tables as the settings have them."""
    own = [setting for setting in WORKER_SETTINGS if setting not in SETTINGS]
    asking = [setting for setting in CLIENT_SETTINGS if setting not in SETTINGS]
    tables = iter([*_groups(SETTINGS).values(), own, asking])
    text = _TABLE.sub(
        lambda found: found[1] + "".join(map(_row, next(tables))),
        CONFIGURATION.read_text(encoding="utf-8"),
    )
    return _FIELDS.sub(lambda found: found[1] + "".join(_fields()), text)


def values_schema() -> str:
    """Return the chart's values.schema.json: `dashboard.env` takes the settings without a value of
    their own.
    """
    names = {each.env for each in SETTINGS if each.env and not each.secret} - _OF_THE_CHART
    rows = ",\n".join(f'              "{name}"' for name in sorted(names))
    text = VALUES_SCHEMA.read_text(encoding="utf-8")
    return re.sub(r'("propertyNames": {\s+"enum": \[\n)[^]]*?(\n +\])', rf"\1{rows}\2", text)


_TABLE = re.compile(
    r"(^\| variable \| flag \| default \| meaning \|\n\|---\|---\|---\|---\|\n)(?:\|.*\n)*",
    re.MULTILINE,
)


_FIELDS = re.compile(
    r"(^\| field \| default \| meaning \|\n\|---\|---\|---\|\n)(?:\|.*\n)*", re.MULTILINE
)


def _fields() -> Iterator[str]:
    """Yield a row for each field of DashboardConfig, with its docstring."""
    (config,) = ast.parse(textwrap.dedent(inspect.getsource(DashboardConfig))).body
    assert isinstance(config, ast.ClassDef)
    for field, told in pairwise(config.body):
        if isinstance(field, ast.AnnAssign) and isinstance(told, ast.Expr) and field.value:
            assert isinstance(told.value, ast.Constant)
            words = " ".join(str(told.value.value).split())
            named = "REDACT_KEYS" in ast.unparse(field.value)
            default = "`password`, `token`, … " if named else f"`{ast.unparse(field.value)}`"
            yield f"| `{ast.unparse(field.target)}` | {default.strip()} | {words} |\n"


def _row(setting: Setting) -> str:
    variables = ", ".join(f"`{name}`" for name in setting.env_names)
    flag = f"`{setting.flag}`" if setting.flag else ""
    default = f"`{setting.default}`" if setting.default else "off" * setting.switch
    if not setting.env:
        default = ""
    return f"| {variables} | {flag} | {setting.default_words or default} | {setting.help} |\n"


def _groups(settings: Iterable[Setting]) -> Mapping[str, list[Setting]]:
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(setting.group, []).append(setting)
    return groups


if __name__ == "__main__":
    ENV_EXAMPLE.write_text(env_example(), encoding="utf-8")
    CONFIGURATION.write_text(configuration(), encoding="utf-8")
    VALUES_SCHEMA.write_text(values_schema(), encoding="utf-8")
