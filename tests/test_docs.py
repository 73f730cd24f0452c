"""The documentation keeps up: every setting, command, page and right is told somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from riverui.cli.api.connect import CLIENT_SETTINGS
from riverui.cli.main import riverui
from riverui.cli.settings import SETTINGS
from riverui.cli.worker.settings import WORKER_SETTINGS
from riverui.storage.interface.params import Field
from riverui.web.auth.rights import RIGHTS
from riverui.web.http.context import PUBLIC, SIGNED_IN
from riverui.web.http.routes import guarded
from riverui.web.sections import SECTIONS
from tests import documents

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def commands(group: click.Group = riverui, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its name, those of groups as `job list`."""
    for each, command in group.commands.items():
        yield f"{name}{each}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name}{each} ")


@pytest.mark.parametrize(
    ("file", "written"),
    [
        (documents.ENV_EXAMPLE, documents.env_example),
        (documents.CONFIGURATION, documents.configuration),
        (documents.VALUES_SCHEMA, documents.values_schema),
    ],
    ids=[".env.example", "configuration.md", "values.schema.json"],
)
def test_the_settings_are_documented_as_they_are(file: Path, written: Callable[[], str]) -> None:
    assert file.read_text(encoding="utf-8") == written(), "run: python -m tests.documents"


def test_every_setting_is_documented() -> None:
    told = text("docs/reference/configuration.md")
    for setting in dict.fromkeys((*SETTINGS, *WORKER_SETTINGS, *CLIENT_SETTINGS)):
        for name in (*setting.env_names, setting.flag, setting.help):
            assert name in told, name


def test_the_settings_in_the_readme_exist() -> None:
    known = {name for setting in SETTINGS for name in (*setting.env_names, setting.flag) if name}
    table = text("README.md").partition("| variable | flag | meaning |")[2].partition("\n\n")[0]
    names = re.findall(r"`([A-Z_]+[A-Z]|--[a-z-]+)`", table)
    assert len(names) > 10
    assert set(names) <= known


def test_every_command_is_documented() -> None:
    told = text("docs/reference/configuration.md")
    for name in riverui.commands:
        assert f"`{name}`" in told or f"riverui {name}" in told, name


def test_every_flag_of_every_command_is_documented() -> None:
    told = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [
        f"{name} {option}"
        for name, command in commands()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and not re.search(rf"(?<![\w-]){option}(?![\w-])", told)
    ]
    assert missing == []


def test_every_flag_in_the_documents_exists() -> None:
    known = {option for _, command in commands() for each in command.params for option in each.opts}
    known |= {"--help", "--version"}
    told = [
        (page.name, flag)
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("riverui ") or "`riverui " in line
        for flag in re.findall(r"(?<![\w-])--[a-z-]+", line)
    ]
    assert len(told) > 20
    assert [(page, flag) for page, flag in told if flag not in known] == []


def test_every_page_is_documented() -> None:
    told = text("docs/dashboard/pages.md")
    routes = guarded((route for section in SECTIONS for route in section.routes), SECTIONS.rights)
    assert len(routes) > 20
    for route in routes:
        page = route.method == "GET" and route.right not in (PUBLIC, SIGNED_IN)
        if (
            page
            and "raw" not in route.path
            and "log" not in route.path
            and route.path != "/suggest"
        ):
            assert f"`{route.path_format}`" in told, route.path


def test_every_address_of_the_api_is_documented() -> None:
    told = text("docs/reference/api.md")
    routes = guarded((route for section in SECTIONS for route in section.api), SECTIONS.rights)
    assert len(routes) > 20
    for route in routes:
        assert f"`{route.method} {route.path_format}" in told, route.path_format
    assert "`GET /api`" in told
    assert "`GET /api/openapi.json" in told


def test_every_right_is_documented() -> None:
    for right in RIGHTS:
        assert f"`{right}`" in text("docs/reference/security.md"), right


def test_every_search_key_is_documented() -> None:
    told = text("docs/dashboard/search.md")
    for field in Field:
        assert f"{field.value}:" in told or f"{field.value}." in told, field


def _test_names(file: Path) -> set[str]:
    """Return the names of the tests in a file, those of a class behind its name."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        names |= {
            f"{prefix}{each.name}"
            for each in inner
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return names


def test_rivals_are_the_releases_that_the_documents_name() -> None:
    compared = text("docs/compare/compare.md")
    river = re.search(r"River UI v([\d.]+) .* with River v([\d.]+)", compared)
    assert river
    ui, engine = river.groups()
    assert f"Go River v{engine}" in text("docs/reference/river.md")
    # River's command line has no newer module: its source says how it gets the newest library.
    wanted = {"cmd/river": "0.47.0"}
    required = re.compile(
        r"\b(riverqueue\.com/riverui|github\.com/riverqueue/river(?:/\S+)?) v([\d.]+)"
    )
    programs = sorted(ROOT.glob("tests/interop/go/**/go.mod"))
    assert any(program.parent.name == "river_ui" for program in programs)
    for program in programs:
        required_by = program.read_text(encoding="utf-8")
        replaced = set(re.findall(r"^replace (\S+) =>", required_by, re.M))
        for module, version in required.findall(required_by):
            if module in replaced:
                continue
            part = module.removeprefix("github.com/riverqueue/river").removeprefix("/")
            expected = ui if part == "riverqueue.com/riverui" else wanted.get(part, engine)
            assert version == expected, (program.parent.name, module)


def test_the_scenarios_of_rivers_conformance_suite_have_their_tests() -> None:
    told = text("docs/compare/conformance.md")
    results = dict(re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", told, re.MULTILINE))
    count = {result: [*results.values()].count(result) for result in set(results.values())}
    assert (
        f"Of {len(results)} scenarios {count['same']} give the same as in Go,"
        f" {count['partly']} do except for one assertion, {count['differs']} differs,"
        f" and {count['not run']} are not run."
    ) in " ".join(told.split())
    tests = {
        name.removeprefix("test_")
        for path in ROOT.glob("tests/conformance/test_*.py")
        for name in _test_names(path)
    }
    run = {name for name, result in results.items() if result != "not run"}
    assert run <= tests, run - tests
    assert tests.isdisjoint(results.keys() - run)


def test_the_tests_that_prove_the_behaviour_of_pro_exist() -> None:
    told = text("docs/reference/pro.md")
    named = re.findall(r"`(tests/[^`:]+\.py)::([^`]+)`", told)
    assert len(named) > 5
    paths = {path for path, _ in named if (ROOT / path).exists()}
    files = {path: _test_names(ROOT / path) for path in paths}
    missing = [f"{path}::{name}" for path, name in named if name not in files.get(path, ())]
    assert missing == []


def test_each_behaviour_of_pro_names_its_test() -> None:
    lines = text("docs/reference/pro.md").partition("\n| behaviour |")[2].splitlines()[1:]
    rows = [
        line
        for line in lines
        if line.startswith("|") and not line.startswith(("|---", "| behaviour |"))
    ]
    assert rows
    assert [row for row in rows if "::test_" not in row.rsplit(" | ", 1)[-1]] == []
