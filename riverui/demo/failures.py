"""Failures of the demo shop's jobs: Go's messages and traces, and real Python exceptions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from riverui.engine.work.outcome import error_text, trace_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One way in which a kind of job fails.

    It is either a Python function that raises, or a Go worker's message, with a trace if it
    panicked. `{name}` in a message is replaced by that arg of the job.
    """

    error: str = ""
    trace: str = ""
    raises: Callable[[Mapping[str, Any]], object] | None = None
    seconds: float | None = None
    """Duration of the attempt, if it is part of the failure."""


class UpstreamError(Exception):
    """Another service returned an error."""


class MediaError(Exception):
    """A file cannot be processed."""


def error_and_trace(failure: Failure, message: str, args: Mapping[str, Any]) -> tuple[str, str]:
    """Return the error and the trace of a past attempt."""
    try:
        if failure.raises is not None:
            failure.raises(args)
    except Exception as error:
        # Without the frame of this function, which no worker calls.
        trace = error.__traceback__ and error.__traceback__.tb_next
        return error_text(error), trace_text(error.with_traceback(trace))
    return message, failure.trace


def _go_trace(*frames: str) -> str:
    """Return a Go stack of these frames, the innermost first."""
    inner = (
        "runtime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26",
        "panic({0x14e2b00?, 0x20c1f30?})\n\t/usr/local/go/src/runtime/panic.go:792",
    )
    executor = "github.com/riverqueue/river/internal/jobexecutor.(*JobExecutor).Execute"
    file = "/go/pkg/mod/github.com/riverqueue/river@v0.51.1/internal/jobexecutor/job_executor.go"
    return "".join(f"{frame}\n" for frame in (*inner, *frames, f"{executor}\n\t{file}:158"))


def _unreadable_image(args: Mapping[str, Any]) -> NoReturn:
    raise MediaError(f"cannot identify image file {args.get('source')!r}")


def _huge_image(args: Mapping[str, Any]) -> None:
    width, height = 40_000, 30_000
    if width * height > 10**9:
        raise MemoryError(f"image of {width * height / 10**9} gigapixels")


def _slow_query(args: Mapping[str, Any]) -> NoReturn:
    raise TimeoutError(f"report {args.get('report')}: canceling statement due to statement timeout")


def _ffmpeg(args: Mapping[str, Any]) -> None:
    command = ["ffmpeg", "-i", "in.mov", "-c:v", "libx264", "out.mp4"]
    try:
        raise subprocess.CalledProcessError(69, command, stderr="moov atom not found")
    except subprocess.CalledProcessError as error:
        raise MediaError(f"{args.get('source')}: ffmpeg failed") from error


def _reset(args: Mapping[str, Any]) -> None:
    try:
        raise ConnectionResetError("Connection reset by peer")
    except ConnectionResetError as error:
        raise UpstreamError(f"reading {args.get('file')} ended early") from error


EMAIL = (
    Failure(error="smtp: 421 4.7.0 Too many connections from this host, try again later"),
    Failure(error="dial tcp 10.0.8.14:587: connect: connection refused"),
    Failure(error="template: order_shipped:42: nil pointer evaluating *Parcel.URL"),
)
WEBHOOK = (
    Failure(error='Post "{url}": context deadline exceeded', seconds=10.0),
    Failure(error="webhook endpoint answered 503 Service Unavailable: upstream connect error"),
    Failure(error="webhook endpoint answered 410 Gone"),
    Failure(error="tls: failed to verify certificate: x509: certificate has expired"),
)
PUSH = (
    Failure(error='apns: 410 {{"reason":"Unregistered"}}'),
    Failure(error="fcm: quota exceeded for project shop-prod (UNAVAILABLE)"),
)
INDEX_UPDATE = (
    Failure(error="opensearch: 429: es_rejected_execution_exception on shard [products_v7][3]"),
    Failure(
        error="runtime error: index out of range [5] with length 5",
        trace=_go_trace(
            "example.com/shop/internal/search.(*Indexer).chunk(0xc0004a2000, {0xc000b10000, 0x5})\n"
            "\t/src/internal/search/indexer.go:141 +0x1f4",
            "example.com/shop/internal/search.(*UpdateWorker).Work\n"
            "\t/src/internal/search/update_worker.go:58",
        ),
    ),
)
FRAUD_CHECK = (
    Failure(error="feature store: context deadline exceeded", seconds=5.0),
    Failure(
        error="runtime error: invalid memory address or nil pointer dereference",
        trace=_go_trace(
            "example.com/shop/internal/risk.(*Scorer).Score(0x0, {0x1a2c3d8, 0xc00021e0f0})\n"
            "\t/src/internal/risk/scorer.go:87 +0x2a",
            "example.com/shop/internal/risk.(*CheckWorker).Work\n"
            "\t/src/internal/risk/check_worker.go:33",
        ),
    ),
)
PAYMENT = (
    Failure(error="{provider}: 402 card_declined: insufficient_funds"),
    Failure(error="{provider}: idempotency key is in use by another request (409)"),
    Failure(error="pq: deadlock detected\nDETAIL: Process 4117 waits for ShareLock."),
)
RENEWAL = (Failure(error="ledger: account 7734 is locked for closing until 02:00 UTC"),)
CLEANUP = (Failure(error="canceling statement due to lock timeout (SQLSTATE 55P03)"),)
IMAGE = (Failure(raises=_unreadable_image), Failure(raises=_huge_image))
REPORT = (Failure(raises=_slow_query, seconds=30.0),)
VIDEO = (Failure(raises=_ffmpeg),)
IMPORT = (Failure(raises=_reset),)

CANCELLED = (
    "order was withdrawn by the customer",
    "recipient has unsubscribed",
    "superseded by a newer version",
)
"""Why a worker cancels a job itself."""
