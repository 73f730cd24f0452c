"""How the API is asked: what reaches which host, and what is told where something is wrong."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from riverui.cli.api.remote import RemoteApi
from riverui.errors import ConfigError
from riverui.web.auth.tokens import PREFIX, new_token
from tests.cli.conftest import Ways
from tests.test_cli import Run

Stub = Callable[..., tuple[str, list[tuple[str, str]]]]
CERTIFICATE = Path(__file__).with_name("localhost.pem")
NOBODY = "http://127.0.0.1:1"
"""Nothing listens there."""


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Start servers that answer everything the same; return the URL, and what they are asked."""
    servers: list[ThreadingHTTPServer] = []

    def start(
        status: int, body: bytes = b"", *, tls: bool = False, **headers: str
    ) -> tuple[str, list[tuple[str, str]]]:
        asked: list[tuple[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers.get("Authorization", "")))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        servers.append(server)
        return f"http{'s' * tls}://127.0.0.1:{server.server_port}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (400, b'{"message": "Wrong."}', 2, "Wrong."),
        (401, b'{"message": "Sign in."}', 2, "set RIVERUI_API_TOKEN"),
        (403, b'{"message": "You may not see jobs."}', 1, "You may not see jobs."),
        (404, b'{"message": "Job not found: 1."}', 1, "Job not found: 1."),
        (404, b"<h1>Nothing here</h1>", 2, "riverui was not found at this address"),
        (409, b'{"message": "In the way."}', 1, "In the way."),
        (500, b"oops", 1, "answered with status 500"),
        (503, b'{"message": "The database cannot be reached."}', 1, "cannot be reached"),
        (200, b"<h1>Hello</h1>", 2, "this is not riverui"),
        (503, b'{"message": "' + b"x" * 5_000 + b'"}', 1, "xxx"),
        (503, b'{"message": "a\\u001b[2Jb"}', 1, "a\\u001b[2Jb"),
    ],
)
def test_each_answer_has_its_words_and_its_exit_code(
    run: Run, stub: Stub, status: int, body: bytes, code: int, words: str
) -> None:
    url, _ = stub(status, body)
    found, out, err = run("job", "get", "1", "--api", url)
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
    assert words in err
    assert len(err) < 600
    assert "\x1b" not in err


def test_no_token_goes_to_another_host(run: Run, stub: Stub) -> None:
    elsewhere, asked = stub(200, b"{}")
    url, first = stub(302, Location=f"{elsewhere}/api/jobs/1")
    code, _, err = run("job", "get", "1", "--api", url, RIVERUI_API_TOKEN="riverui_secret")
    assert code == 2
    assert f"the address redirects to {elsewhere}" in err
    assert first == [("/api/jobs/1", "Bearer riverui_secret")]
    assert asked == []
    assert "riverui_secret" not in err


def test_a_certificate_must_be_trusted(run: Run, stub: Stub) -> None:
    url, asked = stub(404, b'{"message": "Job not found: 1."}', tls=True)
    code, _, err = run("job", "get", "1", "--api", url, RIVERUI_API_TOKEN="riverui_secret")
    assert code == 1
    assert "its certificate is not trusted" in err
    assert asked == []
    trusted = {"SSL_CERT_FILE": str(CERTIFICATE)}
    assert run("job", "get", "1", "--api", url, **trusted)[2] == "riverui: Job not found: 1.\n"
    # It is that of another host.
    elsewhere = url.replace("127.0.0.1", "127.0.0.2")
    code, _, err = run("job", "get", "1", "--api", elsewhere, **trusted)
    assert code == 1


def test_a_dashboard_below_a_path_is_asked_there(run: Run, stub: Stub) -> None:
    url, asked = stub(404, b'{"message": "no"}')
    run("job", "get", "1", RIVERUI_API_URL=f"{url}/river/")
    assert asked == [("/river/api/jobs/1", "")]


class TestChoice:
    """Which of the two is asked, and by whom."""

    def test_a_flag_wins_and_then_a_dashboard(self, run: Run, ways: Ways) -> None:
        good, other = dict(ways.database), {"RIVERUI_API_URL": NOBODY}
        assert run("queue", "list", **good, **other)[0] == 1
        named = ["--database-url", good["DATABASE_URL"]]
        assert run("queue", "list", *named, **other)[0] == 0
        away = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"}
        token = {"RIVERUI_API_TOKEN": ways.api["RIVERUI_API_TOKEN"]}
        assert run("queue", "list", "--api", ways.url, **away, **token)[0] == 0
        code, _, err = run("queue", "list", "--api", ways.url, *named)
        assert code == 2
        assert "not both" in err

    def test_a_user_and_password_may_stand_in_the_url(self, run: Run, ways: Ways) -> None:
        inside = ways.url.replace("http://", "http://ada:s3cret%20word@")
        assert run("queue", "list", "--api", inside)[2] == ""
        wrong = ways.url.replace("http://", "http://ada:wr0ng@")
        code, _, err = run("queue", "list", "--api", wrong)
        assert code == 2
        assert "rejects the user and password in the URL" in err
        assert "wr0ng" not in err
        code, _, err = run("queue", "list", "--api", inside, RIVERUI_API_TOKEN=f"{PREFIX}x")
        assert code == 2
        assert "choose one" in err

    def test_a_token_that_is_not_the_dashboards_is_rejected(self, run: Run, ways: Ways) -> None:
        for token, words in ((new_token("x", "all")[0], "rejects the token"), ("", "set RIVERUI")):
            code, _, err = run("queue", "list", "--api", ways.url, RIVERUI_API_TOKEN=token)
            assert code == 2
            assert words in err

    def test_a_token_may_lie_in_a_file(self, run: Run, ways: Ways, tmp_path: object) -> None:
        file = f"{tmp_path}/token"
        with open(file, "w") as opened:
            opened.write(f"{ways.api['RIVERUI_API_TOKEN']}\n")
        assert run("queue", "list", "--api", ways.url, RIVERUI_API_TOKEN_FILE=file)[2] == ""

    def test_what_is_not_reached_is_one_line(self, run: Run) -> None:
        for url in (NOBODY, "http://ada:s3cret@127.0.0.1:1/river", "http://nowhere.invalid"):
            code, out, err = run("job", "list", "--api", url)
            assert (code, out) == (1, "")
            assert err.count("\n") == 1
            assert "cannot be reached" in err
            assert "s3cret" not in err
        code, out, err = run("job", "list", DATABASE_URL="postgres://u:hunter2@127.0.0.1:1/x")
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert "hunter2" not in err

    @pytest.mark.parametrize(
        "url",
        [
            "ftp://x",
            "jobs.example",
            "http://",
            "http://x:99999",
            "http://x?q=1",
            "http://a b",
            "/x",
        ],
    )
    def test_what_is_no_url_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigError, match="the API's URL"):
            RemoteApi(url)

    def test_without_either_that_is_told(self, run: Run) -> None:
        code, _, err = run("job", "list")
        assert code == 2
        assert "no database: set DATABASE_URL" in err
