"""docs/start/worker.md, typed into an empty folder on a fresh database."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.docs.reader import AT_MOST, Reader, blocks, reading
from tests.worker.conftest import wait_for

PAGE = Path(__file__).parents[2] / "docs/start/worker.md"


def environment(database_url: str, **others: str) -> dict[str, str]:
    """Return that of a reader's terminal: this project's programs come first."""
    return {
        "DATABASE_URL": database_url,
        "HOME": os.environ.get("HOME", "/"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        **others,
    }


@pytest.mark.timeout(900)
def test_a_reader_comes_from_an_empty_folder_to_a_container(
    empty_database_url: str, tmp_path: Path
) -> None:
    environ = environment(empty_database_url)
    with reading(tmp_path, environ) as reader:
        environ["PORT"] = str(reader.port("8080"))
        for block in blocks(PAGE):
            reader.does(block)
            if block.note.startswith("said by"):
                _the_failure_is_seen(reader)
                # The page says Ctrl-C in a sentence.
                assert reader.terminals.pop("worker").ends() == 0
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
            "Dockerfile", "conftest.py", "insert.py", "jobs.py", "requirements.txt", "test_jobs.py",
        ]  # fmt: skip
        assert '"de"' in (tmp_path / "jobs.py").read_text()
        with psycopg.connect(empty_database_url) as connection:
            rows = connection.execute(
                "select state::text, attempt, metadata ->> 'output' from river_job order by id"
            ).fetchall()
        assert rows == [
            ("completed", 1, "Hello, Ann!"),
            ("completed", 1, "Bonjour, Bob!"),
            ("completed", 2, "Guten Tag, Carl!"),
        ]
        assert reader.terminals.pop("worker").ends() == 0


def _the_failure_is_seen(reader: Reader) -> None:
    """Where the page sends its reader in the dashboard."""
    base = f"http://127.0.0.1:{reader.port('8080')}"
    with httpx2.Client(base_url=base) as browser:

        def listed() -> str:
            return browser.get("/jobs?state=retryable").text

        # The worker says so first, and writes it then.
        wait_for(lambda: "/jobs/3" in listed(), seconds=AT_MOST)
        assert "KeyError" in listed()
        assert "Bonjour, Bob!" in browser.get("/jobs/2").text
        assert "Retry" in browser.get("/jobs/3").text


def test_the_image_is_as_hadolint_wants_it(tmp_path: Path) -> None:
    (file,) = [block for block in blocks(PAGE) if block.file == "Dockerfile"]
    (tmp_path / "Dockerfile").write_text(file.text)
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--failure-threshold", "style", "Dockerfile"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_images_commands_work_and_stop(database_url: str, tmp_path: Path) -> None:
    """Docker is not here, so the lines of the file are followed without it."""
    found = {block.file: block.text for block in blocks(PAGE) if block.file}
    copied = re.search(r"^COPY (\S+\.py) \.$", found["Dockerfile"], re.M)
    assert copied
    (tmp_path / copied[1]).write_text(found[copied[1]])
    check, command = map(json.loads, re.findall(r"CMD (\[.*\])$", found["Dockerfile"], re.M))
    with reading(tmp_path, environment(database_url)) as reader:
        reader.environ = environment(database_url, PORT=str(reader.port("8081")))
        reader.starts("worker", shlex.join(command))
        wait_for(lambda: reader.code(shlex.join(check)) == 0, seconds=AT_MOST)
        assert reader.terminals.pop("worker").ends(signal.SIGTERM) == 0
        assert reader.code(shlex.join(check)) == 1
