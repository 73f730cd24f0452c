"""Which errors are the same, in texts as Go's and Python's workers store them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial

import pytest

from riverui.features.error_groups.domain.fingerprints import (
    FINGERPRINT,
    MAX_MESSAGE,
    MAX_TRACE,
    cut_trace,
    error_signature,
    normalised,
)

SITE = "/app/.venv/lib/python3.13/site-packages"

SAME = [
    (
        "dial tcp 10.0.8.14:587: connect: connection refused",
        "dial tcp 192.168.0.1:25: connect: connection refused",
        "dial tcp <ip>: connect: connection refused",
    ),
    (
        "dial tcp [fe80::1]:5432: i/o timeout",
        "dial tcp [2001:db8:0:0:0:0:0:7]:5433: i/o timeout",
        "dial tcp [<ip>]:<number>: i/o timeout",
    ),
    (
        'Post "https://a.example.com/hook?id=7": context deadline exceeded',
        'Post "https://b.example.org/other": context deadline exceeded',
        "Post <str>: context deadline exceeded",
    ),
    (
        "get https://a.example.com/x/1: EOF",
        "get http://other.example:8080/: EOF",
        "get <url> EOF",
    ),
    (
        "lookup db-3.prod.internal on 169.254.169.254:53: no such host",
        "lookup db-17.prod.internal on 10.0.0.2:53: no such host",
        "lookup <host> on <ip>: no such host",
    ),
    (
        "no account for bob.smith+spam@mail.example.com",
        "no account for alice@example.org",
        "no account for <email>",
    ),
    (
        "order_1234 not found",
        "order_99 not found",
        "order_<number> not found",
    ),
    (
        "job f016e59c-7ad8-41d7-8903-bb1aa5720d53 took 1m30.5s",
        "job 00000000-0000-0000-0000-000000000000 took 250ms",
        "job <uuid> took <duration>",
    ),
    (
        "upstream f016e59c7ad8b1d72903bb1aa5720d53 failed",
        "upstream 619205da514e83f869515c782a328d3c failed",
        "upstream <hash> failed",
    ),
    (
        "certificate has expired: current time is after 2026-11-19T23:59:59Z",
        "certificate has expired: current time is after 2026-11-20 08:00:00.123 +0000 UTC",
        "certificate has expired: current time is after <date>",
    ),
    (
        "Retry after Sun, 06 Nov 1994 08:49:37 GMT",
        "Retry after Mon, 16 Nov 2026 18:00:00 GMT",
        "Retry after <date>",
    ),
    (
        "nil pointer at 0xc0004a2000 (commit 3f2a9bc1)",
        "nil pointer at 0x0 (commit 99aa01d)",
        "nil pointer at <hex> (commit <hex>)",
    ),
    (
        "no such customer: cus_Nx82jKQ91zPq9",
        "no such customer: cus_A1b2C3d4E5f6G7",
        "no such customer: cus_<id>",
    ),
    (
        "balance is off by -0.0100 in 1 entry of 1,203",
        "balance is off by 17 in 3 entry of 9",
        "balance is off by <number> in <number> entry of <number>",
    ),
    (
        "pq: deadlock detected\nDETAIL: Process 4117 waits for ShareLock",
        "pq: deadlock detected\r\n  DETAIL: Process 9 waits for ShareLock",
        "pq: deadlock detected DETAIL: Process <number> waits for ShareLock",
    ),
    (
        "role 'app' may not 'delete' `jobs`",
        "role “ops” may not 'read' \"queues\"",
        "role <str> may not <str> <str>",
    ),
]

APART = [
    ("smtp: connection refused", "imap: connection refused"),
    ("send: dial tcp 10.0.0.1:25: connection refused", "send: dial tcp 10.0.0.1:25: i/o timeout"),
    ("unexpected status code 404", "unexpected status code 503"),
    (
        "ERROR: out of shared memory (SQLSTATE 53200)",
        "ERROR: out of shared memory (SQLSTATE 53100)",
    ),
    ("x509: unknown authority", "x508: unknown authority"),
    ("products_v7 is full", "products_v8 is full"),
    ("can't open it", "can't close it"),
    ("", "something"),
]


@pytest.mark.parametrize(("one", "other", "message"), SAME)
def test_what_differs_from_job_to_job_does_not_count(one: str, other: str, message: str) -> None:
    assert normalised(one) == message
    assert normalised(other) == message
    assert error_signature(one) == error_signature(other)


@pytest.mark.parametrize(("one", "other"), APART)
def test_other_errors_are_others(one: str, other: str) -> None:
    assert error_signature(one).fingerprint != error_signature(other).fingerprint


def test_a_fingerprint_names_its_rules_and_stays() -> None:
    found = error_signature("dial tcp 10.0.8.14:587: connect: connection refused")
    assert FINGERPRINT.fullmatch(found.fingerprint)
    assert found.fingerprint == "fp1:ebf458c4a64b6f0b"
    assert (found.type, found.frames) == ("", ())


def test_the_messages_of_river_itself() -> None:
    texts = (
        "Stuck job rescued by Rescuer",
        "job kind is not registered in the client's Workers bundle: mail_send",
        "JobCancelError: customer has left",
        "context deadline exceeded",
    )
    assert [error_signature(text).title for text in texts] == list(texts)
    assert error_signature(texts[2]).type == "JobCancelError"


def _python(error: str, *frames: tuple[str, int, str]) -> str:
    steps = "".join(f'  File "{f}", line {n}, in {name}\n    x()\n' for f, n, name in frames)
    return f"Traceback (most recent call last):\n{steps}{error}\n"


def test_a_python_error_counts_by_its_type_and_own_frames() -> None:
    trace = _python(
        "shop.errors.NoStock: 7 left",
        (f"{SITE}/riverui/engine/work/job_executor.py", 118, "_work"),
        ("/app/shop/orders.py", 61, "work"),
        ("/app/shop/stock.py", 29, "take"),
        ("/usr/lib/python3.13/contextlib.py", 81, "inner"),
    )
    found = error_signature("NoStock: 7 left of sofa", trace)
    assert (found.type, found.message) == ("NoStock", "<number> left of sofa")
    assert found.frames == ("orders.py in work", "stock.py in take")
    moved = trace.replace("line 29", "line 31").replace("/app/", "/srv/app-v2/")
    assert error_signature("NoStock: nothing at all", moved).fingerprint == found.fingerprint
    windows = trace.replace("/app/shop/", "C:\\app\\shop\\").replace(
        f"{SITE}/", "C:\\python\\Lib\\site-packages\\"
    )
    assert error_signature("NoStock: 1", windows).frames == found.frames
    for other in (
        error_signature("Closed: 7 left of sofa", trace),
        error_signature("NoStock: 7 left of sofa", trace.replace("in take", "in give")),
    ):
        assert other.fingerprint != found.fingerprint


def test_one_frame_alone_does_not_count() -> None:
    trace = _python("KeyError: 'a'", ("/app/shop/orders.py", 61, "work"))
    one, other = error_signature("KeyError: 'a'", trace), error_signature("KeyError: 'b'", trace)
    assert one.frames == ("orders.py in work",)
    assert one.fingerprint == other.fingerprint
    assert one.title == "KeyError: <str>"
    assert error_signature("ValueError: 'a'", trace).fingerprint != one.fingerprint


def _deep(depth: int) -> None:
    if depth:
        _deep(depth - 1)
    raise ValueError("too deep")


def _chained() -> None:
    try:
        _deep(0)
    except ValueError as error:
        raise LookupError("no such thing") from error


def _many() -> None:
    raise ExceptionGroup("2 of them", [ValueError("a"), KeyError("b")])


def _traced(call: Callable[[], None]) -> tuple[str, str]:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
    raise AssertionError("it did not raise")


def test_traces_as_python_writes_them() -> None:
    here = "test_fingerprints.py in"
    chained = error_signature(*_traced(_chained))
    assert (chained.type, chained.frames) == (
        "LookupError",
        (f"{here} _traced", f"{here} _chained"),
    )
    many = error_signature(*_traced(_many))
    assert (many.type, many.frames) == ("ExceptionGroup", (f"{here} _traced", f"{here} _many"))
    # How deep a recursion was does not matter.
    deep, deeper = (error_signature(*_traced(partial(_deep, n))) for n in (20, 200))
    assert deep.fingerprint == deeper.fingerprint
    assert deep.frames[-1] == f"{here} _deep"


GO = """\
runtime/debug.Stack()
\t/usr/local/go/src/runtime/debug/stack.go:26
panic({0x14e2b00?, 0x20c1f30?})
\t/usr/local/go/src/runtime/panic.go:792
example.com/shop/internal/risk.(*Scorer).Score(0x0, {0x1a2c3d8, 0xc00021e0f0})
\t/src/internal/risk/scorer.go:87 +0x2a
github.com/jackc/pgx/v5.(*Conn).Query
\t/go/pkg/mod/github.com/jackc/pgx/v5@v5.7.1/conn.go:731
example.com/shop/internal/risk.(*CheckWorker).Work.func2.1
\t/src/internal/risk/check_worker.go:33
github.com/riverqueue/river/internal/jobexecutor.(*JobExecutor).execute.func2
\t/go/pkg/mod/github.com/riverqueue/river@v0.51.1/internal/jobexecutor/job_executor.go:268
"""


def test_a_panic_of_go_counts_by_its_own_frames() -> None:
    error = "runtime error: index out of range [5] with length 5"
    found = error_signature(error, GO)
    assert found.type == "panic"
    assert found.frames == ("risk.(*CheckWorker).Work.func", "risk.(*Scorer).Score")
    assert found.title == "panic: runtime error: index out of range [<number>] with length <number>"
    other = GO.replace("scorer.go:87 +0x2a", "scorer.go:91").replace("func2.1", "func3")
    assert error_signature("something else", other).fingerprint == found.fingerprint
    trimmed = GO.replace("/go/pkg/mod/", "").replace("/usr/local/go/src/", "").replace("/src/", "")
    assert error_signature(error, trimmed).frames == found.frames
    assert error_signature(error).fingerprint != found.fingerprint


def test_a_job_may_say_itself_which_errors_are_the_same() -> None:
    one = error_signature("some error", GO, "vendor down")
    assert one.fingerprint == error_signature("another", "", "vendor down").fingerprint
    assert one.fingerprint != error_signature("some error", GO, "vendor slow").fingerprint
    assert one.title == "panic: some error"
    plain = error_signature("some error", GO).fingerprint
    assert error_signature("some error", GO, "x" * 101).fingerprint == plain
    assert error_signature("some error", GO, "x" * 100).fingerprint != plain


def test_long_texts_are_cut() -> None:
    found = error_signature(": ".join(["retry failed " + "again and " * 30] * 9))
    assert len(found.message) == MAX_MESSAGE
    # Every part of a wrapped error keeps a place.
    wrapped = error_signature("send: " + "x " * 300 + ": connection refused")
    assert wrapped.message.startswith("send: x x")
    assert wrapped.message.endswith(": connection refused")
    assert error_signature("a" * 3_000) == error_signature("a" * 300_000)
    trace = "begin\n" + "x" * 20_000 + "\nend"
    assert len(cut_trace(trace)) == MAX_TRACE + 3
    assert (cut_trace(trace)[:5], cut_trace(trace)[-3:]) == ("begin", "end")
    many = _python("E: e", *[("/app/a.py", n, f"f{n}") for n in range(3_000)])
    assert error_signature("E: e", many).frames == tuple(f"a.py in f{n}" for n in range(2990, 3000))


def test_what_is_not_seen_does_not_count() -> None:
    assert normalised("a\x00\x1b b\u202e\u200b\n\tc") == "a b c"
    assert error_signature("\ud800 broken").title == "\ud800 broken"
    assert error_signature("").title == "(no message)"


HOSTILE = [
    *(
        2_000 // len(piece) * piece
        for piece in ("a", "a.", "a@", "1.", ":", "1:", "'a", '"a', "f1")
    ),
    *(2_000 // len(piece) * piece for piece in ("a-", "http://", "1m", "com.", "a::", "_1a", "\\")),
    *(
        2_000 // len(piece) * piece
        for piece in ("status ", "2026-", "12:", "0x", "+1e", "«", "a b:")
    ),
    'File "' * 1_300,
    "a\n\t" * 2_600,
    "a\n\tb:1\n" * 1_100,
    "a(" * 4_000 + "\n\tb:1",
    "| " * 4_000,
    "Traceback (most recent call last):\n" * 220,
    '  File "x", line 1, in a\n' * 310,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:8])
def test_hostile_texts_take_no_time(text: str) -> None:
    """The time grows with the length alone: a tenth of a second is ten times what they take."""
    for trace in (text * 4, "Traceback (most recent call last):\n" + text * 4):
        started = time.process_time()
        error_signature(text, trace)
        assert time.process_time() - started < 0.1
