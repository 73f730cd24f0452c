"""The house keeps its rules: who may call whom, where SQL lives, sizes and names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

import riverui
from riverui.storage.interface.sql_blocks import read_blocks

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "riverui"
TESTS = ROOT / "tests"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
PYTHON = sorted(
    path
    for folder in (PACKAGE, TESTS, ROOT / "bench", ROOT / "examples")
    for path in folder.rglob("*.py")
)
SQL = (PACKAGE / "storage/postgres", PACKAGE / "storage/stores", PACKAGE / "features")

VAGUE = {"base", "common", "helpers", "manager", "misc", "shared", "util", "utils"}
LONGEST = 750
"""Lines; most files are 100-400."""

NOT_PLAIN = re.compile(
    r"\b(told|telling|tells (?!apart)|of here|somebody|whoever|comes again|believed)\b",
    re.IGNORECASE,
)
"""Words that the package and its pages use no more: they hide who does what."""

# Where each may read what comes from outside, and why.
OUTSIDE = {
    "cli/main.py": "it is the one that reads for all others",
    "demo/run.py": "the demo has its own two: XDG_CACHE_HOME and RIVERUI_PG_BIN",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def test_imports_go_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    told = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


BESIDE = {
    ("concurrency", "heartbeats"): "slots of a client that is dead are free again",
    ("dead_letters", "operations"): "all that match",
    ("error_groups", "operations"): "all jobs of a group",
    ("operations", "dead_letters"): "its runner reads dead letters, too",
    ("slo", "figures"): "how many jobs start in time is read from figures",
    ("sequences", "workflows"): "a task of a workflow is in no sequence",
    ("workflows", "concurrency"): "River Pro's producers",
    ("workflows", "durable_periodic"): "River Pro's periodic jobs",
}
"""Features that import another one, and why."""


def test_features_know_nothing_of_one_another() -> None:
    found = set()
    for path in (PACKAGE / "features").rglob("*.py"):
        feature = path.relative_to(PACKAGE / "features").parts[0]
        for other in re.findall(r"^from riverui\.features\.(\w+)", path.read_text(), re.M):
            found |= {(feature, other)} - {(feature, feature)}
    assert found == set(BESIDE)


_LIVES = "signs of life are the engine's own; their tables are a feature's"
_TYPES = "types of settings that features define, for type checkers only"
_TALLIES = "the counts of attempts that figures store, for type checkers only"
_DURABLE = "the page and the API of periodic jobs show durable ones too"
_FIGURES = "figures of pages and metrics come from their reader"
_INCIDENTS = "queues and kinds show the open incidents that they are the cause of"
_LIMITS = "the page and the API set limits of jobs at once and rate limits"
_INCIDENTS = "the front page, the health report and the metrics have the open incidents"
_OPERATIONS = "actions on all matching jobs are operations"
NAMES_FEATURES = {
    "actions/health.py": _LIVES,
    "actions/queue_clients.py": _LIVES,
    "cli/health.py": _FIGURES,
    "cli/serve/config.py": "the setting that names the file of encryption keys",
    "engine/config.py": _TYPES,
    "engine/lead/maintenance/job_rescuer.py": _LIVES,
    "engine/lead/stand_in.py": _LIVES,
    "engine/queue_config.py": _TYPES,
    "engine/runtime.py": _LIVES,
    "engine/work/candidate_fetch.py": _TYPES,
    "engine/work/job_runner.py": _TALLIES,
    "engine/work/outcome_writes.py": _TALLIES,
    "web/api/diagnoses.py": _INCIDENTS,
    "web/app.py": _FIGURES,
    "web/config.py": _TYPES,
    "web/http/context.py": _FIGURES,
    "web/limits.py": _FIGURES,
    "web/http/metrics.py": _FIGURES,
    "web/http/periodic_runs.py": _LIVES,
    "web/http/prometheus.py": _FIGURES,
    "web/sections/jobs/api.py": _OPERATIONS,
    "web/sections/jobs/bulk.py": _OPERATIONS,
    "web/sections/jobs/usual.py": _FIGURES,
    "web/sections/kinds/index.py": _INCIDENTS,
    "web/sections/kinds/show.py": _INCIDENTS,
    "web/sections/overview/facts.py": _FIGURES,
    "web/sections/overview/index.py": _INCIDENTS,
    "web/sections/overview/metrics.py": _INCIDENTS,
    "web/sections/periodic/__init__.py": _DURABLE,
    "web/sections/periodic/api.py": _DURABLE,
    "web/sections/periodic/index.py": _DURABLE,
    "web/sections/queues/api.py": _LIMITS,
    "web/sections/queues/index.py": _FIGURES,
    "web/sections/queues/limits.py": _LIMITS,
    "web/sections/queues/show.py": _FIGURES,
}
"""Files outside features and the demo that import a feature, and why."""
LISTS = (
    "cli/main.py",
    "engine/feature_list.py",
    "actions/report_list.py",
    "web/sections/__init__.py",
)
"""Files that list features: they lose a line with each that is deleted."""


def test_the_core_imports_no_feature() -> None:
    """A feature is deleted by deleting its folder and its line in the lists."""
    rooms = ("actions", "cli", "contrib", "domain", "engine", "ipc", "storage", "testing", "web")
    found, at_run_time = set(), set()
    for path in (path for room in rooms for path in (PACKAGE / room).rglob("*.py")):
        text, place = path.read_text(), path.relative_to(PACKAGE).as_posix()
        if place in LISTS:
            continue
        if re.search(r"^\s*(from|import) riverui\.features\b", text, re.M):
            found.add(place)
        if re.search(r"^(from|import) riverui\.features\b", text, re.M):
            at_run_time.add(place)
    assert found == NAMES_FEATURES.keys()
    assert not {path for path in at_run_time if NAMES_FEATURES[path] in {_TALLIES, _TYPES}}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(path) for path in PYTHON if path.stem.strip("_") in VAGUE] == []


def test_the_language_is_plain() -> None:
    texts = [*sorted(PACKAGE.rglob("*.py")), *TEMPLATES]
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts
        for match in NOT_PLAIN.finditer(path.read_text())
    }
    assert not found


@pytest.mark.parametrize("folder", ["riverui", "templates", "static", "tests", "bench", "examples"])
def test_no_file_has_grown_out_of_hand(folder: str) -> None:
    kinds = {".css", ".html", ".js", ".py", ".sql"}
    files = [
        path
        for path in (ROOT / folder).rglob("*")
        if path.suffix in kinds and "vendor" not in path.parts
    ]
    long = {
        name(path): lines
        for path in files
        if (lines := len(path.read_text().splitlines())) > LONGEST
    }
    assert long == {}, "ask which second room is hiding in there"


def constants(path: Path) -> set[str]:
    """Return the texts that stand in the code by themselves: no docstring, no part of an
    f-string.
    """
    tree = ast.parse(path.read_text())
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
    }


def unused_blocks(folder: Path, code: set[str]) -> dict[str, str]:
    """Return the blocks of the folder's files that no text in the code names in full, with their
    files.
    """
    return {
        block: path.name
        for path in folder.rglob("*.sql")
        for block in read_blocks(path.read_text())
        if block not in code
    }


def test_functions_are_described_by_a_sentence_in_the_imperative() -> None:
    """`Return …`, not `The …`: ruff's D401 knows verbs, and here is what stands for none."""
    no_verbs = {
        *("A", "An", "As", "Every", "How", "Its", "One", "Some", "That", "The", "Those", "Two"),
        *("What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why", "`"),
    }
    found = []
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            # A property is a value, and so is described as one.
            if any(ast.unparse(each).endswith("property") for each in node.decorator_list):
                continue
            first = re.match(r"`|\w+", ast.get_docstring(node) or "")
            if first and first[0] in no_verbs:
                found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def is_figure(node: ast.expr) -> bool:
    """Return whether this is a number or a span of time, whatever it is put together from."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=operand):
            return is_figure(operand)
        case ast.BinOp(left=left, right=right):
            return is_figure(left) and is_figure(right)
        case ast.Call(func=ast.Name(id="timedelta")):
            return True
        case ast.Tuple(elts=elements):
            return bool(elements) and all(map(is_figure, elements))
    return False


def test_every_number_of_a_module_says_what_it_is() -> None:
    """A docstring behind it, or a comment, tells its unit and why it is that large."""
    # Units say it by their names.
    unit = "_?(NOTHING|MILLISECOND|SECOND|MINUTE|HOUR|DAY)"
    units = re.compile(rf"{unit}|\({unit}(, {unit})*\)")
    # A file is parsed only if it has a line that may begin such an assignment.
    begin = re.compile(r"^\w[^\n]*=[-+~(\s]*(?:[\d.]|timedelta\()", re.MULTILINE)
    found = []
    for path in PYTHON:
        text = path.read_text()
        if not begin.search(text):
            continue
        lines, body = text.splitlines(), ast.parse(text).body
        for node, following in zip_longest(body, body[1:]):
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if not is_figure(node.value) or units.fullmatch(ast.unparse(target)):
                continue
            told = isinstance(following, ast.Expr) or "#" in lines[node.lineno - 1]
            if not told and not lines[node.lineno - 2].startswith("#"):
                found.append(f"{name(path)}:{node.lineno} {ast.unparse(target)}")
    assert found == []


def test_every_sql_block_is_used_by_its_name(tmp_path: Path) -> None:
    code = set().union(*(constants(path) for folder in SQL for path in folder.rglob("*.py")))
    assert [unused_blocks(folder, code) for folder in SQL] == [{}] * len(SQL)
    # A block that nobody asks for is found, whatever it begins or ends with.
    planted = tmp_path / "browse/planted.sql"
    planted.parent.mkdir()
    planted.write_text(
        "-- name: queue_nobody_asks\nselect 1;\n-- part: job_text_never (job_text_piece.text)\na;\n"
        "-- name: job_list\nselect 2;\n"
    )
    assert set(unused_blocks(tmp_path, code)) == {"queue_nobody_asks", "job_text_never"}


def test_lines_of_sql_are_not_too_long() -> None:
    files = [path for path in PACKAGE.rglob("*.sql") if "migrations" not in path.parts]
    assert [
        f"{name(path)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ] == []


def test_every_demo_block_is_used_by_its_name() -> None:
    code = words((PACKAGE / "demo/history.py").read_text())
    blocks = read_blocks((PACKAGE / "demo/seed.sql").read_text())
    assert set(blocks) <= code


def test_sql_lives_in_sql_files() -> None:
    """In code there are names of blocks; at most a transaction's own few words are put together
    there. SQLite's driver, whose statements are short, has them in its operations.
    """
    statement = re.compile(
        r"^\s*(select\s.+\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from)\s", re.I | re.S
    )
    # A file is parsed only if a string in it begins like one.
    begin = re.compile(r"[\"'](?:\s|\\.)*(?:select|insert|update|delete)\b", re.I)
    found = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if not begin.search(text) or path.is_relative_to(PACKAGE / "storage" / "sqlite"):
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and statement.match(node.value)
            ):
                found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def outside(path: Path) -> Iterator[int]:
    """Yield the lines that read the environment or the command line."""
    text = path.read_text()
    if not words(text) & {"environ", "getenv", "argv"}:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in {("os", "environ"), ("os", "getenv"), ("sys", "argv")}:
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "sys"):
            yield from (
                node.lineno for alias in node.names if alias.name in ("environ", "getenv", "argv")
            )


def test_only_the_command_line_reads_from_outside() -> None:
    allowed = {PACKAGE / path for path in OUTSIDE}
    assert [
        f"{name(path)}:{line}"
        for path in PACKAGE.rglob("*.py")
        if path not in allowed
        for line in outside(path)
    ] == []


def test_only_these_modules_make_markup() -> None:
    """Everything else goes through the templates' escaping."""
    allowed = {
        PACKAGE / f"{name}.py"
        for name in (
            "features/workflows/section/graph",
            "web/view/charts",
            "web/view/format",
            "web/view/histogram",
            "web/view/job_table",
            "web/view/long_text",
            "web/view/run_bars",
            "web/view/tables",
            "web/view/time_chart",
        )
    }
    makers = [
        name(path)
        for path in PACKAGE.rglob("*.py")
        if "Markup" in words(path.read_text()) and path not in allowed
    ]
    assert makers == []


def test_template_names_are_used() -> None:
    code = "\n".join(path.read_text() for path in [*PACKAGE.rglob("*.py"), *TEMPLATES])
    names = [path.relative_to(ROOT / "templates").as_posix() for path in TEMPLATES]
    assert [
        template
        for template in names
        if f'"{template}"' not in code and f"'{template}'" not in code
    ] == []


def test_the_changelog_tells_of_this_version() -> None:
    versions = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == riverui.__version__


def test_nothing_that_was_built_is_tracked() -> None:
    """Each of these has come in by accident somewhere: wheels, archives, caches, compiled
    programs.
    """
    built = re.compile(
        r"\.(whl|egg|gz|zip|tar|pyc|so|o|exe|db|log)$|(^|/)(dist|build|node_modules|__pycache__)/"
    )
    allowed = re.compile(r"(^|/)(uv\.lock|go\.sum)$")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = tracked.stdout.split("\0")[:-1]
    assert "README.md" in names
    assert [name for name in names if built.search(name)] == []
    there = [name for name in names if (ROOT / name).is_file() and not allowed.search(name)]
    assert [name for name in there if (ROOT / name).stat().st_size > 1_000_000] == []


def test_python_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    oldest = project["project"]["requires-python"].removeprefix(">=")
    assert project["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert f"Programming Language :: Python :: {oldest}" in project["project"]["classifiers"]
    assert f"Python {oldest}" in (ROOT / "README.md").read_text()


def test_importing_riverui_is_quick_and_does_nothing() -> None:
    """A host app that only wants `create_app` at hand pays for it when it calls it."""
    script = (
        "import sys, riverui; print(*(m for m in ('starlette', 'psycopg', 'jinja2') if m in"
        " sys.modules))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == []
    assert told.stderr == ""
