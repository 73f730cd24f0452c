"""The image and the compose file, proved as far as a machine without a Docker engine can."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from riverui.cli.main import riverui
from riverui.cli.settings import SETTINGS
from riverui.cli.worker.settings import WORKER_SETTINGS
from tests.needs import need
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
UID = 10001
"""The user that the image runs as."""
DOCKERFILE_IMAGES = dict(
    re.findall(r"(?m)^ARG (\w+_IMAGE)=(\S+)$", (ROOT / "Dockerfile").read_text())
)
"""The images that it is built on, by the argument that may name others."""


class Dockerfile:
    """The instructions of the last stage, and the RUN lines of the one before."""

    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
        stages = re.split(r"(?m)^FROM ", joined)[1:]
        self.stages = [stage.splitlines() for stage in stages]

    def all(self, word: str, *, stage: int = -1) -> list[str]:
        return [
            line.partition(" ")[2] for line in self.stages[stage] if line.startswith(f"{word} ")
        ]

    def command(self, word: str) -> list[str]:
        (found,) = self.all(word)
        command: list[str] = json.loads(found[found.index("[") :])
        return command

    def environment(self, *, stage: int = -1) -> dict[str, str]:
        pairs = [
            pair.partition("=")
            for line in self.all("ENV", stage=stage)
            for pair in shlex.split(line)
        ]
        return {name: value for name, _, value in pairs}


@pytest.fixture(scope="module")
def dockerfile() -> Dockerfile:
    return Dockerfile((ROOT / "Dockerfile").read_text())


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, "--failure-threshold", "style", ROOT / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_small_and_powerless(dockerfile: Dockerfile) -> None:
    assert [stage[0] for stage in dockerfile.stages] == [
        "${UV_IMAGE} AS uv",
        "${PYTHON_IMAGE} AS build",
        "${PYTHON_IMAGE}",
    ], "one base, so the venv fits"
    assert dockerfile.all("USER") == [f"{UID}:{UID}"]
    (names,) = dockerfile.all("RUN")
    assert f":{UID}:{UID}:" in names, "user and group have a name"
    assert f':{UID}:"' in names
    assert not dockerfile.all("VOLUME")
    copied = dockerfile.all("COPY")
    assert copied == ["--from=build /opt/riverui /opt/riverui"], "no sources, no tools"
    assert dockerfile.environment()["RIVER_HOST"] == "0.0.0.0"
    assert not {name for name in dockerfile.environment() if "AUTH" in name}, (
        "the image must stay closed"
    )


def test_the_build_takes_the_lock_and_known_extras(dockerfile: Dockerfile) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    syncs = [line for line in dockerfile.all("RUN", stage=-2) if "uv sync" in line]
    assert len(syncs) == 2
    assert all("--locked --no-dev" in line for line in syncs)
    assert dockerfile.all("ARG", stage=-2) == ["EXTRA="]
    assert compose()["services"]["demo"]["build"]["args"]["EXTRA"] in extras
    for line in syncs:
        for source in re.findall(r"source=([^,]+),", line):
            assert (ROOT / source).is_file()
        for target in re.findall(r"target=([^, ]+)", line):
            assert target.startswith("/"), "buildah and Podman of Debian 12 take no other"


def test_the_images_steps_give_a_server(dockerfile: Dockerfile, database_url: str) -> None:
    with build(dockerfile) as venv:
        environ = {
            **dockerfile.environment(),
            "PATH": f"{venv}/bin:{os.environ['PATH']}",
            "PORT": str(free_port()),
            "DATABASE_URL": reachable(database_url),
        }
        assert dockerfile.environment()["PATH"].startswith("/opt/riverui/bin:")
        command = dockerfile.command("ENTRYPOINT") + dockerfile.command("CMD")

        refused = as_container(command, environ)
        assert refused.wait(30) == 2
        _, told = refused.communicate()
        assert "refusing to listen on 0.0.0.0 without authentication" in told

        migrate = as_container(
            dockerfile.command("ENTRYPOINT") + compose()["services"]["migrate"]["command"], environ
        )
        assert migrate.wait(30) == 0, migrate.communicate()
        migrate.communicate()

        environ |= {"RIVER_BASIC_AUTH_USER": "ada", "RIVER_BASIC_AUTH_PASS": "secret"}
        server = as_container(command, environ)
        try:
            check = dockerfile.command("HEALTHCHECK")
            wait_until(lambda: run_to_end(check, environ) == 0)
            assert run_to_end([*check[:-1], "complete"], environ) == 0
            assert ask(environ["PORT"], "/jobs") == 401
            assert ask(environ["PORT"], "/jobs", "Basic YWRhOnNlY3JldA==") == 200
            assert ask(environ["PORT"], "/static/x/app.css") == 200
            (signal_name,) = dockerfile.all("STOPSIGNAL")
            assert signal_name == "SIGTERM"
            server.terminate()
            assert server.wait(15) == 0
            assert run_to_end(check, environ) == 1
        finally:
            server.kill()
            server.communicate()

        service = compose()["services"]["worker"]
        app = venv.parent / "app"
        shutil.copytree(ROOT / "examples/worker", app)
        environ |= service["environment"] | {"RIVERUI_HEALTH_PORT": environ["PORT"]}
        command = [*dockerfile.command("ENTRYPOINT"), "worker", "jobs:client"]
        worker = as_container(command, environ, cwd=app)
        try:
            wait_until(lambda: run_to_end(service["healthcheck"]["test"][1:], environ) == 0)
            assert run_to_end(check, environ) == 0
            worker.terminate()
            assert worker.wait(15) == 0
        finally:
            worker.kill()
            _, told = worker.communicate()
        assert "Traceback" not in told


def test_docker_compose_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    for missing in (None, ""):
        monkeypatch.delenv("POSTGRES_PASSWORD", raising=False)
        if missing is not None:
            monkeypatch.setenv("POSTGRES_PASSWORD", missing)
        with pytest.raises(AssertionError, match="to a long random password"):
            resolved(tmp_path / "compose.yaml")
    monkeypatch.setenv("POSTGRES_PASSWORD", "chosen by whoever starts it")
    services = resolved(tmp_path / "compose.yaml")["services"]
    passwords = [
        services["postgres"]["environment"]["POSTGRES_PASSWORD"],
        *(
            services[name]["environment"]["PGPASSWORD"]
            for name in ("migrate", "dashboard", "worker")
        ),
    ]
    assert set(passwords) == {"chosen by whoever starts it"}
    assert set(services) == {"postgres", "migrate", "dashboard", "worker", "demo"}
    assert (
        services["dashboard"]["depends_on"]["migrate"]["condition"]
        == "service_completed_successfully"
    )
    assert services["migrate"]["environment"]["PGHOST"] == "postgres"
    assert services["demo"]["profiles"] == ["demo"]
    assert services["worker"]["profiles"] == ["worker"]
    assert services["worker"]["command"] == ["worker", "jobs:client"]
    assert services["worker"]["environment"]["PGHOST"] == "postgres"

    for variable, default in DOCKERFILE_IMAGES.items():
        assert services["demo"]["build"]["args"][variable] == default
        monkeypatch.setenv(variable, f"somewhere.test/image@sha256:{'0' * 64}")
    monkeypatch.setenv("POSTGRES_IMAGE", "somewhere.test/postgres@sha256:" + "1" * 64)
    services = resolved(tmp_path / "compose.yaml")["services"]
    assert services["postgres"]["image"].endswith("1" * 64)
    for name in ("migrate", "dashboard", "worker", "demo"):
        for variable in DOCKERFILE_IMAGES:
            assert services[name]["build"]["args"][variable].endswith("0" * 64), (name, variable)
    assert services["demo"]["build"]["args"]["EXTRA"] == "demo"

    (tmp_path / "compose.yaml").write_text(
        (ROOT / "compose.yaml").read_text().replace("cap_drop", "cap_drip")
    )
    with pytest.raises(AssertionError, match="cap_drip"):
        resolved(tmp_path / "compose.yaml")


def test_what_the_compose_file_says_is_true_of_riverui() -> None:
    file = compose()
    for name, service in file["services"].items():
        for published in service.get("ports", []):
            assert published.startswith("127.0.0.1:"), (
                "nothing is open to the network unless someone says so"
            )
        for other in service.get("depends_on", {}):
            assert other in file["services"]
        if name == "postgres":
            continue
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        # Names of other parts (PGHOST, …) are libpq's.
        ours = {key for key in service.get("environment", {}) if not key.startswith("PG")}
        assert ours <= {setting.env for setting in (*SETTINGS, *WORKER_SETTINGS)}
        command, *flags = service.get("command", ["serve"])
        if "healthcheck" in service and "test" in service["healthcheck"]:
            assert service["healthcheck"]["test"][2] in riverui.commands
        known = {
            option for parameter in riverui.commands[command].params for option in parameter.opts
        }
        assert {flag for flag in flags if flag.startswith("--")} <= known


def test_the_build_context_holds_what_the_wheel_needs_and_no_more() -> None:
    sent = context()
    assert {
        "pyproject.toml",
        "uv.lock",
        "README.md",
        "LICENSE",
        "riverui/cli/main.py",
        "static/css/app.css",
    } <= sent
    assert "templates/base.html" in sent
    assert not [
        path for path in sent if path.split("/")[0] in ("tests", ".git", ".venv", "docs", ".env")
    ]
    assert not [path for path in sent if path.endswith(".pyc")]


def compose() -> dict[str, Any]:
    """Return the compose file with its anchors and merges resolved."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def resolved(file: Path) -> dict[str, Any]:
    """Return the file as Docker Compose understands it; AssertionError with its words where it does
    not.
    """
    if (
        shutil.which("docker")
        and run_to_end(["docker", "compose", "version"], dict(os.environ)) == 0
    ):
        command = [
            "docker",
            "compose",
            "--file",
            str(file),
            "--profile",
            "*",
            "config",
            "--format",
            "json",
        ]
    else:
        need("Go")
        program = ROOT / ".cache" / "compose"
        program.parent.mkdir(exist_ok=True)
        subprocess.run(
            ["go", "build", "-o", program, "."],
            cwd=Path(__file__).parent / "container/compose",
            check=True,
        )
        command = [str(program), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def context() -> set[str]:
    """Return the files that .dockerignore lets into the build."""
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    sent = set()
    tracked = [path for path in ROOT.iterdir() if path.name not in (".git", ".venv", ".cache")]
    for top in tracked:
        for path in [top] if top.is_file() else top.rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and not ignored(name, rules):
                sent.add(name)
    return sent


def ignored(name: str, rules: list[str]) -> bool:
    """Docker's rule: the last pattern that fits the path or one of its folders decides."""
    parts = name.split("/")
    heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    result = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        fits = any(
            fnmatch.fnmatch(head.rpartition("/")[2], pattern[3:])
            if pattern.startswith("**/")
            else fnmatch.fnmatchcase(head, pattern) and head.count("/") == pattern.count("/")
            for head in heads
        )
        if fits:
            result = not rule.startswith("!")
    return result


@contextlib.contextmanager
def build(dockerfile: Dockerfile) -> Iterator[Path]:
    """Yield the environment of the image: its last `uv sync`, run on its build context."""
    # Not pytest's own folder: that is closed to the user that the image runs as.
    with tempfile.TemporaryDirectory(prefix="riverui-image-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        source, venv = place / "src", place / "venv"
        for name in context():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
        sync, compiling = dockerfile.all("RUN", stage=-2)[-2:]
        command = shlex.split(sync[sync.index("uv sync") :].partition(" ${EXTRA")[0])
        steps = [[*command, "--python", interpreter()]]
        if shutil.which("uv") is None:
            steps = [
                [interpreter(), "-m", "venv", str(venv)],
                [f"{venv}/bin/pip", "install", "."],
            ]
        steps.append(["sh", "-c", compiling.replace("/opt/riverui", str(venv))])
        environ = {
            **os.environ,
            **dockerfile.environment(stage=-2),
            "UV_PROJECT_ENVIRONMENT": str(venv),
        }
        for name in ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
            environ.pop(name, None)
        for step in steps:
            done = subprocess.run(
                step, cwd=source, env=environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        assert any(venv.rglob("templates/__pycache__/*.jinja")), "templates are not compiled"
        open_to_all = [
            path
            for path in venv.rglob("*")
            if not path.is_symlink() and path.stat().st_mode & 0o002
        ]
        assert open_to_all == []
        shutil.rmtree(source)
        yield venv


def interpreter() -> str:
    """Return a Python that the image's user can start too."""
    for candidate in (
        os.path.realpath(sys.executable),
        "/usr/bin/python3",
        "/usr/local/bin/python3",
    ):
        folders = Path(candidate).parents
        if Path(candidate).exists() and (
            os.geteuid() or all(path.stat().st_mode & 0o001 for path in folders)
        ):
            return candidate
    pytest.fail(f"no Python here that user {UID} may start")


def reachable(database_url: str) -> str:
    """Return the database's URL, usable by the image's user: the test server's socket may be for us
    alone.
    """
    (host,) = parse_qs(urlsplit(database_url).query).get("host", [""])
    if host.startswith("/") and os.geteuid() == 0:
        Path(host).chmod(0o711)
        for file in Path(host).glob(".s.PGSQL.*[0-9]"):
            file.chmod(0o777)
    return database_url


def as_container(
    command: list[str], environ: dict[str, str], *, cwd: str | Path = "/"
) -> subprocess.Popen[str]:
    """Start it as the image does: its own user, a folder that is not, nothing but its
    environment.
    """
    other = UID if os.geteuid() == 0 else None
    executable = shutil.which(command[0], path=environ["PATH"])
    assert executable
    return subprocess.Popen(
        [executable, *command[1:]],
        cwd=cwd,
        env=environ,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        extra_groups=None if other is None else [],
        group=other,
        user=other,
    )


def run_to_end(command: list[str], environ: dict[str, str]) -> int:
    return subprocess.run(
        [shutil.which(command[0], path=environ["PATH"]) or command[0], *command[1:]],
        capture_output=True,
        check=False,
        env=environ,
        timeout=30,
    ).returncode


def ask(port: str, path: str, authorization: str = "") -> int:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", int(port), timeout=10)
    connection.request(
        "GET", path, headers={"Authorization": authorization} if authorization else {}
    )
    status = connection.getresponse().status
    connection.close()
    return status


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "never became healthy"
        time.sleep(0.2)
