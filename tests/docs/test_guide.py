"""The guide's Python is run, page by page, as a reader would: each page is one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

from tests.docs.programs import DOCS, guide, program, run

GUIDE = guide()
"""Every page with a program; nothing has to be listed."""


@pytest.mark.parametrize("name", GUIDE)
async def test_a_page_of_the_guide_runs(
    name: str, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As the README writes it.
    monkeypatch.setenv("DATABASE_URL", database_url.replace("postgresql://", "postgres://", 1))
    assert os.environ["DATABASE_URL"].startswith("postgres://")
    monkeypatch.chdir(tmp_path)
    await run(name, monkeypatch)


async def test_the_readmes_program_runs(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    module = ModuleType("shop")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(program(DOCS.parent / "README.md"), "README.md", "exec"), module.__dict__)
    async with (
        module.lifespan(module.app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(module.app), base_url="http://127.0.0.1:8000"
        ) as browser,
    ):
        (job,) = (await module.client.job_list()).jobs
        done = await module.client.wait(job.id, timeout=timedelta(seconds=60))
        assert done.output == ["bear", "tiger", "whale"]
        page = await browser.get(f"/jobs/{job.id}")
        assert page.status_code == 200
        assert "whale" in page.text
    await module.client.driver.close()


_FILE = re.compile(r"^```python\n# ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_isolated_jobs_program_runs(database_url: str, tmp_path: Path) -> None:
    files = dict(_FILE.findall((DOCS / "jobs/writing-workers.md").read_text(encoding="utf-8")))
    assert files.keys() == {"reports.py", "main.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent), "DATABASE_URL": database_url}
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{365 * sum(range(2026))}\n"
