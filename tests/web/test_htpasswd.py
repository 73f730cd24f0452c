"""Files of users, as Apache's own `htpasswd` writes them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import bcrypt
import pytest
from hypothesis import given, settings, strategies as st

from riverui.errors import ConfigError
from riverui.web.auth.htpasswd import HtpasswdFile, apr1, cost, parse, verify
from tests.needs import need

# Written by Apache's htpasswd 2.4 for the password "sécret pässword".
KNOWN = {
    "bcrypt": b"$2y$05$SgcQMTFCArtYGxi2Ludw.eILtJjEjLFyXzibUQkSxp8lIXjigSZmy",
    "apr1": b"$apr1$Df6oWIUV$UvScD6edGEokZkqrr4p/d.",
    "sha": b"{SHA}Usv72U32RuLRMg6IMwqkJS06cEQ=",
}
PASSWORD = "sécret pässword".encode()


@pytest.mark.parametrize("hashed", KNOWN.values(), ids=KNOWN)
def test_hashes_written_by_htpasswd_fit_their_password_and_no_other(hashed: bytes) -> None:
    assert parse(b"ada:" + hashed, name="users") == {b"ada": hashed}
    assert verify(PASSWORD, hashed)
    assert not verify(PASSWORD + b" ", hashed)
    assert not verify(b"", hashed)


@pytest.mark.parametrize("flag", ["-B", "-m", "-s"])
@pytest.mark.parametrize("password", ["x", "a" * 16, "sixteen chars ok", "ä" * 17, "a" * 72])
def test_we_agree_with_the_htpasswd_program(flag: str, password: str) -> None:
    cost = ["-C", "4"] if flag == "-B" else []
    done = subprocess.run(
        [need("htpasswd"), "-nb", flag, *cost, "ada", password],
        capture_output=True,
        check=True,
        timeout=30,
    )
    (hashed,) = parse(done.stdout, name="users").values()
    assert verify(password.encode(), hashed)
    assert not verify(password.encode() + b"x", hashed)


def test_bcrypt_looks_at_the_whole_password() -> None:
    assert not verify(PASSWORD + b"\0rest", KNOWN["bcrypt"])
    assert not verify(b"a" * 73, KNOWN["bcrypt"])


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=80), st.from_regex(rb"[./A-Za-z0-9]{1,8}", fullmatch=True))
def test_apr1_takes_any_password(password: bytes, salt: bytes) -> None:
    hashed = apr1(password, salt)
    assert parse(b"ada:" + hashed, name="users")
    assert verify(password, hashed)


@pytest.mark.parametrize(
    "line",
    [
        b"ada:secret",
        b"ada:rl.3StKT.4T8M",  # crypt
        b"ada:$1$salt$qJH7.N4xYta3aEG/dfqo/0",
        b"ada:$6$salt$" + b"a" * 86,
        b"ada:$2y$05$tooshort",
        b"ada:$2x$05$" + b"a" * 53,
        b"ada:",
    ],
)
def test_weak_or_unknown_hashes_are_refused_with_their_line(line: bytes) -> None:
    with pytest.raises(ConfigError, match=r"users, line 3: .*htpasswd -B"):
        parse(b"# users\n\n" + line + b"\n", name="users")


def test_lines_that_name_nobody_or_somebody_twice_are_refused() -> None:
    with pytest.raises(ConfigError, match="line 1: expected user:hash"):
        parse(b":{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", name="users")
    with pytest.raises(ConfigError, match="line 1: expected user:hash"):
        parse(b"just text", name="users")
    with pytest.raises(ConfigError, match="line 2: this user is already listed"):
        parse(
            b"ada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            name="users",
        )


def test_what_a_hash_costs_is_told_by_its_kind() -> None:
    dearer = KNOWN["bcrypt"].replace(b"$05$", b"$06$")
    assert len({cost(hashed) for hashed in (*KNOWN.values(), dearer)}) == 4
    assert cost(KNOWN["bcrypt"]) == cost(KNOWN["bcrypt"].replace(b"$2y$", b"$2b$"))


@pytest.mark.long
async def test_timing_reveals_neither_names_nor_hashes(
    tmp_path: Path,
) -> None:
    dear = bcrypt.hashpw(PASSWORD, bcrypt.gensalt(11))
    path = tmp_path / "users"
    # The cheap ones first and last.
    path.write_bytes(
        b"\n".join([b"sha:" + KNOWN["sha"], b"dear:" + dear, b"apr1:" + KNOWN["apr1"], b""])
    )
    file = HtpasswdFile(path)

    async def took(user: bytes) -> float:
        began = time.process_time()
        assert not await file.check(user, b"a guess")
        return time.process_time() - began

    users = (b"sha", b"apr1", b"dear", b"nobody")
    times = {user: min([await took(user) for _ in range(3)]) for user in users}
    began = time.process_time()
    assert not verify(b"a guess", dear)
    one = time.process_time() - began
    assert min(times.values()) > one / 2, times
    assert max(times.values()) < min(times.values()) * 2, times
    for user in users:
        assert await file.check(user, PASSWORD) is (user != b"nobody")


@pytest.mark.parametrize("text", [b"", b"# nobody\n\n"])
def test_a_file_without_users_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match="has no users"):
        parse(text, name="users")
