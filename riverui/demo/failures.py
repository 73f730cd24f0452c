"""How the demo shop's jobs fail: messages and traces as Go and Python workers leave them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Holds what an attempt leaves behind; Go workers leave a trace only where they panicked.

    `{name}` in the error stands for that one of the job's args.
    """

    error: str
    trace: str = ""
    seconds: float | None = None
    """How long such an attempt takes, where that is part of the failure."""


def _go(*frames: str) -> str:
    """Return a Go stack of the function and place of each frame, the innermost first."""
    inner = (
        "runtime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26",
        "panic({0x14e2b00?, 0x20c1f30?})\n\t/usr/local/go/src/runtime/panic.go:792",
    )
    outer = (
        (
            "github.com/riverqueue/river/internal/jobexecutor.(*JobExecutor).execute.func2\n"
            "\t/go/pkg/mod/github.com/riverqueue/river@v0.51.1/internal/jobexecutor/job_executor.go:268"
        ),
        (
            "github.com/riverqueue/river/internal/jobexecutor.(*JobExecutor).Execute\n"
            "\t/go/pkg/mod/github.com/riverqueue/river@v0.51.1/internal/jobexecutor/job_executor.go:158"
        ),
    )
    return "".join(f"{frame}\n" for frame in (*inner, *frames, *outer))


def _python(error: str, *frames: tuple[str, int, str, str]) -> str:
    """Return a Python traceback of file, line, function and source of each frame, the outermost
    first.
    """
    steps = "".join(
        f'  File "{file}", line {line}, in {function}\n    {source}\n'
        for file, line, function, source in frames
    )
    return f"Traceback (most recent call last):\n{steps}{error}\n"


_SITE = "/app/.venv/lib/python3.13/site-packages"
_WORK = (f"{_SITE}/riverui/engine/work/job_executor.py", 118, "_work", "await worker.work(job)")

GO: dict[str, tuple[Failure, ...]] = {
    "email_send": (
        Failure(error="smtp: 421 4.7.0 Too many connections from this host, try again later"),
        Failure(error="dial tcp 10.0.8.14:587: connect: connection refused"),
        Failure(
            error=(
                "template: order_shipped:42: executing at <.Parcel.URL>: nil pointer evaluating"
                " *Parcel"
            )
        ),
    ),
    "webhook_delivery": (
        Failure(
            error=(
                'Post "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting'
                " headers)"
            ),
            seconds=10.0,
        ),
        Failure(error="webhook endpoint answered 503 Service Unavailable: upstream connect error"),
        Failure(error="webhook endpoint answered 410 Gone"),
        Failure(
            error=(
                "tls: failed to verify certificate: x509: certificate has expired or is not yet"
                " valid: current time is after 2026-11-19T23:59:59Z"
            )
        ),
    ),
    "push_notification": (
        Failure(error='apns: 410 {"reason":"Unregistered","timestamp":1763712000000}'),
        Failure(error="fcm: quota exceeded for project shop-prod (UNAVAILABLE)"),
    ),
    "search_index_update": (
        Failure(error="opensearch: 429: es_rejected_execution_exception on shard [products_v7][3]"),
        Failure(
            error="runtime error: index out of range [5] with length 5",
            trace=_go(
                "example.com/shop/internal/search.(*Indexer).chunk(0xc0004a2000, {0xc000b10000,"
                " 0x5, 0x5})\n\t/src/internal/search/indexer.go:141 +0x1f4",
                "example.com/shop/internal/search.(*UpdateWorker).Work\n\t/src/internal/search/update_worker.go:58",
            ),
        ),
    ),
    "fraud_check": (
        Failure(error="feature store: context deadline exceeded", seconds=5.0),
        Failure(
            error="runtime error: invalid memory address or nil pointer dereference",
            trace=_go(
                "example.com/shop/internal/risk.(*Scorer).Score(0x0, {0x1a2c3d8, 0xc00021e0f0})\n"
                "\t/src/internal/risk/scorer.go:87 +0x2a",
                "example.com/shop/internal/risk.(*CheckWorker).Work\n\t/src/internal/risk/check_worker.go:33",
            ),
        ),
    ),
    "payment_capture": (
        Failure(error="payfold: 402 card_declined: insufficient_funds"),
        Failure(error="payfold: idempotency key is in use by another request (409)"),
        Failure(
            error=(
                "pq: deadlock detected\nDETAIL: Process 4117 waits for ShareLock; blocked by"
                " process 4102."
            )
        ),
    ),
    "subscription_renewal": (
        Failure(error="ledger: account 7734 is locked for closing until 02:00 UTC"),
    ),
    "cleanup_sessions": (
        Failure(error="canceling statement due to lock timeout (SQLSTATE 55P03)"),
    ),
    "ledger_reconcile": (
        Failure(error="ledger {ledger} does not balance: off by 0.0100 in 1 entry"),
    ),
}

PYTHON: dict[str, tuple[Failure, ...]] = {
    "image_resize": (
        Failure(
            error="UnidentifiedImageError: cannot identify image file <_io.BytesIO object>",
            trace=_python(
                "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object>",
                _WORK,
                ("/app/shop/media/resize.py", 61, "work", "with Image.open(source) as image:"),
                (f"{_SITE}/PIL/Image.py", 3580, "open", "raise UnidentifiedImageError(msg)"),
            ),
        ),
        Failure(
            error="MemoryError: image of 1.2 gigapixels",
            trace=_python(
                "MemoryError: image of 1.2 gigapixels",
                _WORK,
                ("/app/shop/media/resize.py", 48, "work", "self.check_size(header)"),
                (
                    "/app/shop/media/resize.py",
                    29,
                    "check_size",
                    'raise MemoryError(f"image of {pixels} gigapixels")',
                ),
            ),
        ),
    ),
    "invoice_render": (
        Failure(
            error="KeyError: 'vat_rate'",
            trace=_python(
                "KeyError: 'vat_rate'",
                _WORK,
                ("/app/shop/documents/invoice.py", 94, "work", "html = self.render(job.args)"),
                (
                    f"{_SITE}/jinja2/environment.py",
                    1295,
                    "render",
                    "self.environment.handle_exception()",
                ),
                (
                    "/app/shop/templates/invoice.html",
                    38,
                    "top-level template code",
                    "{{ line.net * rates['vat_rate'] }}",
                ),
            ),
        ),
    ),
    "report_export": (
        Failure(
            error="QueryCanceled: canceling statement due to statement timeout",
            trace=_python(
                "psycopg.errors.QueryCanceled: canceling statement due to statement timeout",
                _WORK,
                (
                    "/app/shop/reports/export.py",
                    77,
                    "work",
                    "async for row in cursor.stream(self.sql, period):",
                ),
                (f"{_SITE}/psycopg/cursor_async.py", 291, "stream", "raise e.with_traceback(None)"),
            ),
            seconds=30.0,
        ),
    ),
    "video_transcode": (
        Failure(
            error="CalledProcessError: Command ['ffmpeg', 'in.mov'] returned exit status 69.",
            trace=_python(
                "subprocess.CalledProcessError: Command ['ffmpeg', 'in.mov'] returned exit"
                " status 69.",
                _WORK,
                ("/app/shop/media/transcode.py", 132, "work", "await self.run(*command)"),
                (
                    "/app/shop/media/transcode.py",
                    171,
                    "run",
                    "raise CalledProcessError(process.returncode, command)",
                ),
            ),
        ),
    ),
    "data_import": (
        Failure(
            error="ConnectionResetError: [Errno 104] Connection reset by peer",
            trace=_python(
                "ConnectionResetError: [Errno 104] Connection reset by peer",
                _WORK,
                (
                    "/app/shop/imports/products.py",
                    52,
                    "work",
                    "async for chunk in response.aiter_bytes():",
                ),
                (
                    "/usr/local/lib/python3.13/asyncio/selector_events.py",
                    1014,
                    "_read_ready",
                    "data = self._sock.recv()",
                ),
            ),
        ),
    ),
}

CANCELLED = (
    "JobCancelError: order was withdrawn by the customer",
    "JobCancelError: recipient has unsubscribed",
    "JobCancelError: superseded by a newer version",
)
