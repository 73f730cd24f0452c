"""The command line: settings, exit codes, a server that starts, answers, logs and stops."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import psycopg
import pytest

from riverui import __version__
from riverui.cli.main import double_dashes, main, riverui
from riverui.cli.serve.config import serve_config
from riverui.cli.serve.server import address, listen
from riverui.cli.settings import SETTINGS, Values, choose
from riverui.errors import ConfigError, ListenError
from riverui.web.config import ServeConfig, is_loopback
from tests.conftest import with_database

ROOT = Path(__file__).parents[1]
QUIETED = ("uvicorn.error", "psycopg.pool", "asyncio")
"""Loggers of libraries, which `configure_logging` gives a level of their own."""
NOWHERE = "postgresql://nobody:hunter2@127.0.0.1:1/none"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Take back what a command has set: it sees to the logging of its whole process."""
    root = logging.getLogger()
    before, level = [*root.handlers], root.level
    levels = {name: logging.getLogger(name).level for name in QUIETED}
    yield
    for handler in [*root.handlers]:
        if handler not in before:
            root.removeHandler(handler)
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process: return exit code, stdout, stderr."""

    def call(*argv: str, **environ: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main(argv)
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


class TestBadSettings:
    """One line on stderr and exit code 2."""

    @pytest.mark.parametrize(
        ("argv", "environ", "words"),
        [
            ([], {}, "no database: set DATABASE_URL"),
            (["serve"], {}, "riverui demo"),
            (["--nonsense"], {"DATABASE_URL": NOWHERE}, "--nonsense"),
            (["nonsense"], {}, "nonsense"),
            (["--port"], {}, "argument"),
            (["--port", "http"], {}, "--port is 'http'"),
            ([], {"PORT": "http"}, " PORT is 'http'"),
            (["--port", "-1"], {}, "--port is '-1'"),
            ([], {"PORT": "70000"}, "port 70000"),
            ([], {"PORT": "٣"}, "PORT"),
            (["--host", "0.0.0.0"], {}, "refusing to listen on 0.0.0.0 without authentication"),
            ([], {"RIVER_HOST": "::"}, "refusing to listen on ::"),
            ([], {"RIVER_HOST": "10.1.2.3"}, "--no-auth"),
            ([], {"RIVER_HOST": "example.com"}, "refusing"),
            (["--prefix", "river"], {}, "prefix 'river' must start with a slash"),
            ([], {"PATH_PREFIX": "/a/../b"}, "prefix"),
            ([], {"PATH_PREFIX": "//evil.test"}, "prefix"),
            ([], {"PATH_PREFIX": "/a b"}, "prefix"),
            ([], {"RIVERUI_ROOT_PATH": "x"}, "root path"),
            ([], {"RIVER_BASIC_AUTH_USER": "ada"}, "RIVER_BASIC_AUTH_PASS is not set"),
            ([], {"RIVER_BASIC_AUTH_PASS": "secret"}, "RIVER_BASIC_AUTH_USER is not set"),
            ([], {"RIVER_BASIC_AUTH_USER": "a:b", "RIVER_BASIC_AUTH_PASS": "secret"}, "colon"),
            (
                [],
                {"RIVERUI_HTPASSWD_FILE": "/nowhere", "DATABASE_URL": NOWHERE},
                "cannot read /nowhere",
            ),
            ([], {"RIVER_LOG_LEVEL": "loud"}, "log level 'loud'"),
            ([], {"RIVER_LOG_FORMAT": "xml"}, "log format 'xml'"),
            ([], {"RIVER_DEBUG": "maybe"}, "RIVER_DEBUG is 'maybe'"),
            ([], {"RIVERUI_ENV_COLOR": "pink"}, "'pink'"),
            ([], {"CORS_ORIGINS": "https://a.test, *"}, "CORS origin '*'"),
            ([], {"RIVERUI_SECRET_KEY": "short"}, "secret_key"),
            ([], {"DATABASE_URL": "mysql://u:hunter2@h/d"}, "postgres://"),
            ([], {"DATABASE_URL": "postgres://u:hunter2@h/d?sslmode"}, "is not valid"),
            ([], {"DATABASE_URL_FILE": "/nowhere"}, "DATABASE_URL_FILE: cannot read /nowhere"),
            ([], {"DATABASE_URL_FILE": "/nowhere", "DATABASE_URL": NOWHERE}, "both set"),
            ([], {"RIVER_SCHEMA": 'a"b', "DATABASE_URL": NOWHERE}, "chema"),
            (["--healthcheck", "full"], {}, "minimal or complete"),
            (["healthcheck", "full"], {}, "full"),
            (["demo", "--host", "0.0.0.0"], {}, "--no-auth"),
            (["demo", "--port", "99999"], {}, "99999"),
            (["migrate-up"], {}, "no database"),
            (["migrate-up", "--max-steps", "0"], {}, "max-steps"),
            (["migrate-up", "--statement-timeout", "soon"], {}, "--statement-timeout soon"),
            (["migrate-down", "--statement-timeout", "0s"], {}, "write it like"),
            (["migrate-get", "--all"], {}, "--up or --down"),
            (["migrate-get", "--up"], {}, "--all or --version"),
            (["migrate-get", "--up", "--version", "1,x"], {}, "whole numbers"),
        ],
    )
    def test_they_are_told_in_one_line(
        self, run: Run, argv: list[str], environ: dict[str, str], words: str
    ) -> None:
        code, out, err = run(*argv, **environ)
        assert code == 2
        assert out == ""
        assert err.startswith("riverui: ")
        assert err.count("\n") == 1
        assert words in err
        assert "hunter2" not in err

    def test_a_port_in_use_is_told_in_one_line(self, run: Run) -> None:
        with listen("127.0.0.1", 0) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
                listen("127.0.0.1", port)
        with pytest.raises(ListenError, match=r"cannot listen on nowhere\.invalid"):
            listen("nowhere.invalid", 0)


class TestSettings:
    """Where each value comes from."""

    def test_a_flag_wins_over_the_environment_which_wins_over_the_default(self) -> None:
        assert choose({}, {}).number("port") == 8080
        assert choose({}, {"PORT": "1"}).number("port") == 1
        assert choose({"port": "2"}, {"PORT": "1"}).number("port") == 2
        assert choose({}, {"PORT": ""}).number("port") == 8080

    def test_secrets_may_lie_in_files(self, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        file.write_text(" with spaces \n")
        values = choose({}, {"RIVER_BASIC_AUTH_PASS_FILE": str(file)})
        assert values.secret("basic_password") == " with spaces "
        for broken in (b"", b"\n", b"\xff\xfe"):
            file.write_bytes(broken)
            with pytest.raises(ConfigError, match="RIVER_BASIC_AUTH_PASS_FILE"):
                choose({}, {"RIVER_BASIC_AUTH_PASS_FILE": str(file)})
        assert choose({}, {"RIVER_SCHEMA_FILE": "/nowhere"}).text("schema") == "", (
            "a schema is no secret"
        )

    @pytest.mark.parametrize(
        ("text", "on"), [("1", True), ("true", True), ("TRUE", True), ("0", False), ("", False)]
    )
    def test_switches_are_read_as_river_ui_reads_them(self, text: str, on: bool) -> None:
        assert choose({}, {"RIVERUI_READ_ONLY": text}).switch("read_only") is on

    def test_river_uis_own_names_work(self) -> None:
        environ = {
            "CORS_ORIGINS": "https://a.test, http://b.test:8080",
            "PATH_PREFIX": "/river/",
            "PORT": "9000",
            "RIVER_BASIC_AUTH_PASS": "secret",
            "RIVER_BASIC_AUTH_USER": "ada",
            "RIVER_DEBUG": "true",
            "RIVER_HOST": "0.0.0.0",
            "RIVER_LOG_FORMAT": "json",
            "RIVER_LOG_LEVEL": "warn",
        }
        values = choose({}, environ)
        config = serve_config(values)
        assert (config.bind_host, config.port, config.prefix) == ("0.0.0.0", 9000, "/river")
        assert (config.log_format, config.log_level) == ("json", "debug")
        assert values.words("cors_origins") == ("https://a.test", "http://b.test:8080")
        assert serve_config(choose({}, {"PATH_PREFIX": "/"})).prefix == ""
        assert serve_config(choose({}, {"RIVER_LOG_LEVEL": "WARNING"})).log_level == "warn"

    def test_without_authentication_only_this_machine_is_listened_to(self) -> None:
        assert ServeConfig().bind_host == "127.0.0.1"
        assert ServeConfig(basic_user="a", basic_password="b").bind_host == "0.0.0.0"
        assert ServeConfig(no_auth=True).bind_host == "127.0.0.1"
        for host in ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"):
            assert is_loopback(host)
        for host in ("0.0.0.0", "::", "", "10.0.0.1", "localhost.evil.test", "127.0.0.1.evil.test"):
            assert not is_loopback(host)

    def test_the_health_check_finds_the_server_wherever_it_listens(self) -> None:
        for host, probed in (
            ("0.0.0.0", "127.0.0.1"),
            ("::", "::1"),
            ("10.1.2.3", "10.1.2.3"),
            ("", "127.0.0.1"),
        ):
            assert ServeConfig(host=host, no_auth=True).probe_host == probed
        with listen("::1", 0) as sock:
            config = ServeConfig(host="::1", prefix="/river")
            assert address(sock, config) == f"http://[::1]:{sock.getsockname()[1]}/river/"

    def test_go_flags_with_one_dash_are_understood(self) -> None:
        given = ["-prefix", "/x", "-healthcheck=minimal", "-h", "--port", "1", "--", "-schema"]
        assert double_dashes(given) == [
            "--prefix",
            "/x",
            "--healthcheck=minimal",
            "-h",
            "--port",
            "1",
            "--",
            "-schema",
        ]

    def test_the_table_is_sound(self) -> None:
        for attribute in ("name", "env", "flag"):
            used = [
                getattr(setting, attribute) for setting in SETTINGS if getattr(setting, attribute)
            ]
            assert len(used) == len(set(used)), attribute
        for setting in SETTINGS:
            assert setting.env or setting.flag
            assert setting.help.endswith(".")
            if setting.secret and setting.flag:
                # Others would be seen in process lists; of these two the password is elsewhere.
                assert setting.name in ("database_url", "database_url_read")
        assert isinstance(choose({}, {}), Values)

    def test_help_and_the_example_file_tell_every_setting(self, run: Run) -> None:
        code, out, _ = run("serve", "--help")
        assert code == 0
        example = (ROOT / ".env.example").read_text()
        for setting in SETTINGS:
            for name in (setting.flag, setting.env):
                assert not name or re.search(rf"(?<![\w-]){name}(?!\w)", out), name
            if setting.env:
                assert re.findall(rf"^#{setting.env}=(.*)$", example, re.MULTILINE) == [
                    setting.default
                ], setting.env
        told = set(re.findall(r"^#?(\w+)=", example, re.MULTILINE))
        assert told == {setting.env for setting in SETTINGS if setting.env}


def test_every_command_explains_itself(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    every = dict(riverui.commands)
    for name, command in riverui.commands.items():
        assert name in out
        if isinstance(command, click.Group):
            every |= {f"{name} {each}": found for each, found in command.commands.items()}
    for name, command in every.items():
        code, told, _ = run(*name.split(), "--help")
        assert code == 0
        assert command.help
        assert command.help.splitlines()[0] in " ".join(told.split())


def test_the_version_is_told(run: Run) -> None:
    assert run("version") == (0, f"riverui {__version__}\n", "")
    assert run("--version") == (0, f"riverui {__version__}\n", "")
    done = subprocess.run(
        [sys.executable, "-m", "riverui", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"riverui {__version__}\n"


class TestMigrations:
    """The commands; what the migrations do is tested beside them."""

    def test_up_list_validate_and_down(self, run: Run, empty_database_url: str) -> None:
        url = {"DATABASE_URL": empty_database_url}
        code, out, err = run("validate", **url)
        assert (code, out) == (1, "")
        assert "not applied: 001, 002, 003" in err

        code, out, _ = run(
            "migrate-up",
            "--dry-run",
            "--show-sql",
            "--max-steps",
            "2",
            "--statement-timeout",
            "2m",
            **url,
        )
        assert code == 0
        assert "would apply migration 001 [up]" in out
        assert "create table river_migration" in out.lower().replace("  ", " ")
        assert "003" not in out
        assert run("validate", **url)[0] == 1

        code, out, _ = run("migrate-up", "-target-version", "3", **url)
        assert code == 0
        assert re.search(
            r"applied migration 003 \[up\] river job tags non null +\[[\d.]+ ms\]", out
        )
        code, out, _ = run("migrate-list", **url)
        assert "* 003 river job tags non null\n  004 pending and more\n" in out

        assert run("migrate-up", "--database-url", empty_database_url)[0] == 0
        assert run("migrate-up", **url)[1] == "no migrations to apply\n"
        assert run("validate", **url)[:2] == (0, "Every migration of line main is applied.\n")

        assert "applied migration 008 [down]" in run("migrate-down", **url)[1]
        assert run("validate", **url)[2].startswith("riverui: migrations not applied: 008;")
        code, out, _ = run("migrate-down", "--target-version", "0", **url)
        assert code == 0
        assert "migration 001 [down]" in out
        assert run("migrate-down", **url)[1] == "no migrations to apply\n"

    def test_lines_one_after_the_other(self, run: Run, empty_database_url: str) -> None:
        url = {"DATABASE_URL": empty_database_url}
        both = ("--line", "main", "--line", "riverui")
        code, out, _ = run("migrate-up", *both, **url)
        assert code == 0
        assert out.index("migration 008 [up]") < out.index("001 [up] create riverui operation")
        told = "no migrations to apply\nno migrations to apply of line riverui\n"
        assert run("migrate-up", *both, **url)[1] == told
        out = run("migrate-list", "--line", "riverui", **url)[1]
        assert "001 create riverui operation\n" in out
        assert out.splitlines()[-1].startswith("* ")
        assert run("validate", "--line", "riverui", **url)[0] == 0
        code, out, _ = run(
            "migrate-down", "--line", "riverui", "--target-version", "0", "--yes", **url
        )
        assert (code, "001 [down]" in out) == (0, True)
        code, _, err = run("validate", "--line", "riverui", **url)
        assert code == 1
        assert "run `riverui migrate-up --line riverui`" in err
        out = run("migrate-get", "--line", "riverui", "--all", "--up", "--schema", "q", **url)[1]
        assert out.startswith("-- River riverui migration 001 [up]\n")
        assert 'create table "q".riverui_operation' in out

    @pytest.mark.parametrize(
        ("flags", "answer", "code", "left"),
        [
            ([], "n\n", 1, True),
            ([], "y\n", 0, False),
            (["--yes"], "", 0, False),
            (["--dry-run"], "", 0, True),
        ],
    )
    def test_it_asks_before_it_drops_jobs(
        self, database_url: str, flags: list[str], answer: str, code: int, left: bool
    ) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            insert = "insert into river_job (args, kind, max_attempts) values ('{}', 'sort', 25)"
            connection.execute(insert)
        ours, theirs = pty.openpty()
        os.write(ours, answer.encode())
        argv = ["migrate-down", "--target-version", "0", "--database-url", database_url, *flags]
        done = subprocess.run(
            [sys.executable, "-m", "riverui", *argv],
            stdin=theirs, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        os.close(ours)
        os.close(theirs)
        assert done.returncode == code, done.stderr
        assert ("with all their jobs. Continue?" in done.stderr) is bool(answer)
        with psycopg.connect(database_url, autocommit=True) as connection:
            found = connection.execute("select to_regclass('river_job')").fetchone()
        assert found is not None
        assert (found[0] is not None) is left

    def test_schema_by_flag_or_environment(self, run: Run, empty_database_url: str) -> None:
        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            connection.execute("create schema my_queue")
        assert run("migrate-up", DATABASE_URL=empty_database_url, RIVER_SCHEMA="my_queue")[0] == 0
        assert run("validate", "--schema", "my_queue", DATABASE_URL=empty_database_url)[0] == 0
        assert run("validate", DATABASE_URL=empty_database_url)[0] == 1

    def test_get_prints_sql_and_needs_no_database(self, run: Run) -> None:
        code, out, _ = run(
            "migrate-get", "--version", "2,3", "--version", "4", "--up", "--schema", "queue"
        )
        assert code == 0
        assert re.findall(r"-- River main migration (\d+) \[up\]", out) == ["002", "003", "004"]
        assert '"queue".river_job' in out
        code, out, _ = run("migrate-get", "--all", "--down", "--exclude-version", "1")
        assert re.findall(r"migration (\d+) \[down\]", out) == [
            "008",
            "007",
            "006",
            "005",
            "004",
            "003",
            "002",
        ]

    def test_failures_exit_with_1(self, run: Run, empty_database_url: str) -> None:
        for argv, words in (
            (["migrate-get", "--up", "--version", "99"], "Migration 99 not found"),
            (["migrate-up", "--line", "mian", "--database-url", empty_database_url], "main"),
            (["migrate-up", "--target-version", "99", "--database-url", empty_database_url], "99"),
            (["migrate-list", "--database-url", NOWHERE], "cannot be reached"),
            (
                ["validate", "--database-url", with_database(empty_database_url, "nowhere")],
                "There is no database named “nowhere”.",
            ),
        ):
            code, _, err = run(*argv)
            assert code == 1, argv
            assert err.count("\n") == 1
            assert words in err
            assert "hunter2" not in err


class Server:
    """A `riverui` process that serves."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def get(self, path: str, *, timeout: float = 10, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request(
            "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def wait_for(self, words: str) -> str:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if words in line:
                    return line
            assert self.process.poll() is None or self.reader.is_alive(), self.lines
            time.sleep(0.02)
        pytest.fail(f"never said {words!r}: {self.lines}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(15)
        self.reader.join(5)
        return code


Start = Callable[..., contextlib.AbstractContextManager[Server]]


@pytest.fixture
def start() -> Start:
    """Start `riverui` on a free port of this machine and wait until it listens."""

    @contextlib.contextmanager
    def run(*argv: str, **environ: str) -> Iterator[Server]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "riverui", *argv],
            env={**_plain_environment(), "PORT": str(port), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        server = Server(process, port)
        try:
            server.wait_for("is listening")
            yield server
        finally:
            process.kill()
            process.wait()
            server.reader.join(5)
            assert process.stdout is not None
            process.stdout.close()

    return run


def _plain_environment() -> Mapping[str, str]:
    return {
        name: os.environ[name] for name in ("PATH", "HOME", "SSL_CERT_FILE") if name in os.environ
    }


class TestServe:
    """A real process."""

    def test_it_starts_without_its_database_and_says_so_once(self, start: Start) -> None:
        with start(DATABASE_URL=NOWHERE) as server:
            warning = server.wait_for("cannot be reached")
            assert "level=WARN" in warning
            assert "hunter2" not in warning
            page = server.get("/jobs")
            assert page.status == 503
            assert "The database cannot be reached" in page.text  # type: ignore[attr-defined]
            assert "hunter2" not in page.text  # type: ignore[attr-defined]
            assert _healthcheck(server, "minimal") == (0, "")
            code, told = _healthcheck(server, "complete")
            assert code == 1
            message = "Unable to query database. Check logs for details."
            assert told == f'riverui: complete health check: 503 {{"message":"{message}"}}\n'
            assert server.stop() == 0
        assert sum("Pages will say so" in line for line in server.lines) == 1
        assert not [line for line in server.lines if "Traceback" in line]

    def test_missing_tables_are_reported(self, start: Start, empty_database_url: str) -> None:
        with start(DATABASE_URL=empty_database_url) as server:
            assert "riverui migrate-up" in server.wait_for("level=WARN")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_it_serves_logs_and_stops(self, start: Start, database_url: str, number: int) -> None:
        with start(DATABASE_URL=database_url) as server:
            assert f"url=http://127.0.0.1:{server.port}/" in server.wait_for("is listening")
            page = server.get("/jobs?q=secret")
            assert page.status == 200
            request_id = page.headers["x-request-id"]
            line = server.wait_for(f"id={request_id}")
            assert re.fullmatch(
                r"time=\S+ level=INFO msg=request method=GET path=/jobs status=200 "
                r"duration_ms=[\d.]+ id=\w+\n",
                line,
            )
            assert server.get("/help", Host="evil.test").status == 403, "a rebound host name"
            assert _healthcheck(server, "complete") == (0, "")
            server.wait_for("path=/api/health-checks/complete")
            assert server.stop(number) == 0
        assert "has stopped" in server.lines[-1]
        assert not [line for line in server.lines if "level=WARN" in line or "Traceback" in line]

    def test_requests_finish_before_the_end(self, start: Start, database_url: str) -> None:
        with (
            start(DATABASE_URL=database_url) as server,
            psycopg.connect(database_url) as connection,
        ):
            assert server.get("/queues").status == 200
            connection.execute("lock table river_queue in access exclusive mode")
            statuses: list[int] = []
            asking = threading.Thread(target=lambda: statuses.append(server.get("/queues").status))
            asking.start()
            time.sleep(0.4)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            assert server.process.poll() is None
            connection.rollback()
            asking.join(10)
            assert statuses == [200]
            assert server.process.wait(10) == 0

    def test_prefix_basic_auth_and_json(
        self, start: Start, database_url: str, tmp_path: Path
    ) -> None:
        password = tmp_path / "password"
        password.write_text("s3cret\n")
        with start(
            "-prefix",
            "/river/",
            "-silent-healthchecks",
            DATABASE_URL=database_url,
            RIVER_BASIC_AUTH_PASS_FILE=str(password),
            RIVER_BASIC_AUTH_USER="ada",
            RIVER_HOST="127.0.0.1",
            RIVER_LOG_FORMAT="json",
            RIVERUI_ENV_NAME="staging <b>",
        ) as server:
            assert server.get("/").headers["location"] == "/river/"
            assert server.get("/river/jobs").status == 401
            page = server.get(
                "/river/jobs", Authorization="Basic YWRhOnMzY3JldA==", Host="any.name"
            )
            assert page.status == 200
            assert "staging &lt;b&gt;" in page.text  # type: ignore[attr-defined]
            assert _healthcheck(server, "complete", "--prefix", "/river") == (0, "")
            done = _riverui("-healthcheck=minimal", "-prefix=/river", PORT=str(server.port))
            assert (done.returncode, done.stderr) == (0, "")
            assert _healthcheck(server, "minimal")[0] == 1, "outside the prefix"
            assert server.stop() == 0
        lines = [json.loads(line) for line in server.lines]
        requests = [line for line in lines if line["msg"] == "request"]
        assert [(line["path"], line["status"], line.get("user")) for line in requests] == [
            ("/", 302, None),
            ("/river/jobs", 401, None),
            ("/river/jobs", 200, "ada"),
            ("/api/health-checks/minimal", 404, None),
        ]
        assert all(line["id"] and line["duration_ms"] >= 0 for line in requests)

    @pytest.mark.long
    def test_without_a_secret_each_start_makes_one(self, start: Start, database_url: str) -> None:
        def kept(server: Server, cookie: str = "") -> tuple[str, bool]:
            """Return the cookie that keeps a preference, and whether the theme of the one sent is
            known.
            """
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            with contextlib.closing(connection):
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                connection.request("POST", "/preferences", "theme=dark", form)
                answer = connection.getresponse()
                made = (answer.getheader("set-cookie") or "").partition(";")[0]
                answer.read()
                connection.request("GET", "/about", headers={"Cookie": cookie} if cookie else {})
                return made, b'data-theme="dark"' in connection.getresponse().read()

        with start(DATABASE_URL=database_url) as server:
            server.wait_for("RIVERUI_SECRET_KEY")
            made, _ = kept(server)
            assert kept(server, made)[1]
        with start(DATABASE_URL=database_url) as server:
            assert not kept(server, made)[1], "the same database gives the same key"

        key = {"DATABASE_URL": database_url, "RIVERUI_SECRET_KEY": "long enough, and ours"}
        with start(**key) as server:
            made, _ = kept(server)
        with start(**key) as server:
            assert kept(server, made)[1]
            assert not [line for line in server.lines if "RIVERUI_SECRET_KEY" in line]

    def test_no_one_can_forge_a_log_line(self, start: Start) -> None:
        with start(DATABASE_URL=NOWHERE) as server:
            server.get("/x%0Atime=2026%20level=ERROR%20msg=forged%1b%5b31m")
            line = server.wait_for("forged")
            assert line.startswith("time=")
            assert r'path="/x\ntime=2026 level=ERROR msg=forged\u001b[31m"' in line

    def test_read_only_and_wide_open(self, start: Start, database_url: str) -> None:
        with start(
            "--read-only", "--no-auth", "--host", "0.0.0.0", DATABASE_URL=database_url
        ) as server:
            page = server.get("/jobs", Host="any.name")
            assert page.status == 200
            assert "read-only" in page.text  # type: ignore[attr-defined]


def _riverui(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "riverui", *argv],
        capture_output=True,
        check=False,
        env={**_plain_environment(), **environ},
        text=True,
        timeout=30,
    )


def _healthcheck(server: Server, name: str, *argv: str) -> tuple[int, str]:
    done = _riverui("healthcheck", name, *argv, PORT=str(server.port))
    return done.returncode, done.stderr


class TestExplain:
    """`riverui explain`; what it finds is tested beside the checks."""

    def test_a_job_that_nothing_holds_up(self, run: Run, database_url: str) -> None:
        url = {"DATABASE_URL": database_url}
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "insert into river_queue (name, created_at, updated_at)"
                " values ('default', now(), now())"
            )
            connection.execute("insert into river_job (id, kind, args) values (7, 'mail', '{}')")
            code, out, err = run("explain", "7", **url)
            assert (code, err) == (0, "")
            assert out.startswith("Job 7 (available): It is next in line")
            assert "✓ Next in line" in out
            assert "? Kind known" in out
            connection.execute("update river_queue set paused_at = now()")
        code, out, _ = run("explain", "7", **url)
        assert code == 1
        assert "✗ Queue not paused" in out
        code, out, _ = run("explain", "7", "--json", **url)
        assert code == 1
        told = json.loads(out)
        assert (told["id"], told["blocked"]) == (7, True)
        assert told["headline"].startswith("Its queue has been paused")

    @pytest.mark.parametrize(
        ("job_id", "words"),
        [
            ("8", "job not found: 8"),
            ("x", "a job id is a whole number"),
            ("9" * 30, "a job id is a whole number"),
        ],
    )
    def test_what_is_no_job(self, run: Run, database_url: str, job_id: str, words: str) -> None:
        code, out, err = run("explain", job_id, DATABASE_URL=database_url)
        assert (code, out) == (2, "")
        assert words in err
        assert len(err.splitlines()) == 1
