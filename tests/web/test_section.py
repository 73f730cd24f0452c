"""What a section of the dashboard takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from filecmp import dircmp
from pathlib import Path

from riverui.web.assets import TEMPLATES
from riverui.web.http.context import SIGNED_IN
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections import SECTIONS
from tests.web import new_section

ROOT = Path(__file__).parents[2]
PARTS = Path(new_section.__file__).parent
OTHERS = {"__pycache__", "api", "errors", "macros"}
"""Folders of templates that belong to no section."""


def test_a_section_is_a_folder_a_template_and_a_line(tmp_path: Path) -> None:
    for name in ("riverui", "templates", "static"):
        # With what is compiled already, which holds for the copies as well.
        shutil.copytree(ROOT / name, tmp_path / name)
    sections = tmp_path / "riverui/web/sections"
    (sections / "notes").mkdir()
    shutil.copy(PARTS / "section.py", sections / "notes/__init__.py")
    (tmp_path / "templates/notes").mkdir()
    shutil.copy(PARTS / "index.html", tmp_path / "templates/notes")
    table = (sections / "__init__.py").read_text()
    added = table.replace("import (\n", "import (\n    notes,\n", 1)
    added = added.replace("    queues.SECTION,\n", "    queues.SECTION,\n    notes.SECTION,\n", 1)
    (sections / "__init__.py").write_text(added)
    assert changed(ROOT, tmp_path) == {
        "riverui/web/sections/__init__.py",
        "riverui/web/sections/notes",
        "templates/notes",
    }
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PARTS / "check.py")],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def changed(before: Path, after: Path) -> set[str]:
    """Return the files and folders of the package that were added or changed."""

    def differences(compared: dircmp[str]) -> set[Path]:
        here = {Path(compared.right) / name for name in compared.right_only + compared.diff_files}
        return here.union(*(differences(each) for each in compared.subdirs.values()))

    found = set[Path]()
    for name in ("riverui", "templates", "static"):
        found |= differences(dircmp(before / name, after / name, ignore=["__pycache__"]))
    return {path.relative_to(after).as_posix() for path in found}


def test_each_section_has_its_names_to_itself() -> None:
    assert len({section.name for section in SECTIONS}) == len(SECTIONS)
    rights = [right for section in SECTIONS for right in section.rights]
    assert len(set(rights)) == len(rights), "a right is brought by one section"
    keys = [section.navigation.keys for section in SECTIONS if section.navigation]
    keys = [key for key in keys if key]
    assert len(set(keys)) == len(keys)
    folders = {path.name for path in TEMPLATES.iterdir() if path.is_dir()}
    assert folders - OTHERS - {"demo"} <= {section.name for section in SECTIONS}


def test_each_entry_of_the_navigation_leads_to_a_page_that_its_right_opens() -> None:
    entries = [(section, entry) for section in SECTIONS if (entry := section.navigation)]
    assert len(entries) > 3
    for section, entry in entries:
        (route,) = [route for route in section.routes if route.name == entry.route]
        assert isinstance(route, GuardedRoute)
        # The front page leads those without its right to the list of jobs.
        assert route.right == (SIGNED_IN if route.path == "/" else entry.right)
        assert (route.methods, route.param_convertors) == ({"GET", "HEAD"}, {})
