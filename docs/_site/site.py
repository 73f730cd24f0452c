"""Build the site: stage the written pages, make the generated ones, and run the builder with the
navigation of zensical.toml.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs._site import commands, llms, reference, search
from docs._site.nav import nav, settings
from docs._site.stage import stage

BUILDER = "zensical"
"""The builder; `mkdocs`, with mkdocs-material installed, builds the same configuration."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class BuildError(Exception):
    """The build failed or gave a warning."""


def build(folder: Path) -> Path:
    """Build the site into a folder, which is emptied first, and return the folder of its home page.

    Raise BuildError, with the builder's output, for any warning.
    """
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    source.mkdir(parents=True)
    stage(source)
    generated = reference.pages() | {"reference/commands.md": commands.page()}
    for name, markdown in generated.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(markdown, encoding="utf-8")
    project = settings()
    project |= {"docs_dir": "source", "site_dir": "site", "nav": nav(project["nav"])}
    # JSON is YAML, which MkDocs reads.
    (folder / "mkdocs.yml").write_text(json.dumps(project, indent=1), encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - a fixed command
        [sys.executable, "-m", BUILDER, "build", "--strict", "-f", "mkdocs.yml"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    output = _ANSI.sub("", done.stdout + done.stderr)
    if done.returncode or "Warning:" in output:
        raise BuildError(output.partition("Traceback (most recent call last)")[0])
    search.improve(folder / "site")
    llms.write(folder / "site", source, project)
    return folder / "site"
