"""The made-up shop behind the demo: its queues, workers and kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from riverui.demo import failures, payloads
from riverui.demo.failures import Failure
from riverui.demo.payloads import Args


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A queue, the language of its workers, and how many jobs they work at once."""

    name: str
    language: str
    workers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of job; `share` is its share of new jobs."""

    name: str
    queue: str
    share: float
    seconds: tuple[float, float]
    """Shortest and longest usual duration."""
    args: Callable[[Random], Args]
    lines: tuple[str, ...]
    """Log lines of a successful attempt: level and message, with `{name}` for an arg."""
    output: Callable[[Random, Mapping[str, Any]], object] | None = None
    failures: tuple[Failure, ...]
    flaky: float = 0.02
    """Share of attempts that fail but may succeed the next time."""
    doomed: float = 0.0
    """Share of jobs that can never succeed."""
    snoozed: float = 0.0
    """Share of first attempts that are snoozed."""
    later: float = 0.0
    """Share that is scheduled for a later time."""
    max_attempts: int = 25
    priority: int = 1
    tags: tuple[str, ...] = ()
    periodic: timedelta | None = None
    unique: bool = False
    unlimited: bool = False
    """Whether it has no time limit, so that River's rescuer never rescues it."""


QUEUES = (
    Queue(name="default", language="go", workers=6),
    Queue(name="mailers", language="go", workers=5),
    Queue(name="webhooks", language="go", workers=8),
    Queue(name="billing", language="go", workers=3),
    Queue(name="media", language="python", workers=8),
    Queue(name="reports", language="python", workers=3),
    Queue(name="imports", language="python", workers=2),
)

_HOSTS = (
    ("go", "shop-worker-7c9d5b8f6-q2x7m"),
    ("go", "shop-worker-7c9d5b8f6-z8h4t"),
    ("go", "ip-10-0-3-17_eu-central-1_compute_internal"),
    ("python", "media-py-0"),
    ("python", "media-py-1"),
)


@cache
def client_ids(language: str, started_at: datetime) -> tuple[str, ...]:
    """Return the ids of the clients of one language that were deployed at that time, as River names
    clients.
    """
    return tuple(
        f"{host}_{started_at + timedelta(milliseconds=731 * number):%Y_%m_%dT%H_%M_%S_%f}"
        for number, (spoken, host) in enumerate(_HOSTS)
        if spoken == language
    )


KINDS = (
    Kind(
        name="email_send",
        queue="mailers",
        share=22,
        seconds=(0.4, 3),
        args=payloads.email,
        lines=(
            "INFO rendering template {template} locale={locale}",
            "INFO handing over to relay to={to} size_bytes={bytes}",
            "INFO accepted by relay code=250 message_id=<{hex}@shop.example>",
        ),
        failures=failures.EMAIL,
        doomed=0.002,
        later=0.06,
        max_attempts=12,
        tags=("transactional",),
    ),
    Kind(
        name="webhook_delivery",
        queue="webhooks",
        share=20,
        seconds=(0.2, 6),
        args=payloads.webhook,
        lines=(
            "DEBUG signing payload algorithm=hmac-sha256 key_id=whk_{hex}",
            "INFO posting url={url} timeout=10s",
            "INFO delivered status=200 elapsed={ms}ms",
        ),
        failures=failures.WEBHOOK,
        flaky=0.05,
        doomed=0.003,
        snoozed=0.03,
        max_attempts=8,
        priority=2,
        tags=("customer-facing",),
    ),
    Kind(
        name="push_notification",
        queue="mailers",
        share=13,
        seconds=(0.1, 1),
        args=payloads.push,
        lines=("INFO pushed provider={provider} collapse_key={collapse_key}",),
        failures=failures.PUSH,
        later=0.05,
        max_attempts=5,
        priority=4,
        tags=("campaign", "low-value"),
    ),
    Kind(
        name="search_index_update",
        queue="default",
        share=12,
        seconds=(0.2, 2),
        args=payloads.index_update,
        lines=(
            "INFO bulk request index={index} reason={reason}",
            "INFO refreshed took={ms}ms errors=false",
        ),
        failures=failures.INDEX_UPDATE,
        priority=3,
        doomed=0.006,
        max_attempts=12,
        periodic=timedelta(minutes=10),
    ),
    Kind(
        name="image_resize",
        queue="media",
        share=8,
        seconds=(2, 11),
        args=payloads.image,
        lines=(
            "INFO opened {source}",
            "INFO resized to 320 and 640 pixels",
            "WARNING colour profile missing, assuming sRGB",
            "INFO resized to 1280 pixels",
            "INFO uploaded 3 files format={format} bytes={bytes}",
        ),
        output=payloads.image_files,
        failures=failures.IMAGE,
        doomed=0.008,
        max_attempts=4,
        priority=2,
    ),
    Kind(
        name="fraud_check",
        queue="default",
        share=6,
        seconds=(0.5, 6),
        args=payloads.fraud_check,
        lines=(
            "INFO scoring order order_id={order_id} model=gbm-2026-10",
            "WARN slow feature store elapsed={ms}ms",
            "INFO scored ip={ip}",
        ),
        output=payloads.verdict,
        failures=failures.FRAUD_CHECK,
        tags=("risk",),
        doomed=0.01,
        max_attempts=12,
    ),
    Kind(
        name="payment_capture",
        queue="billing",
        share=6,
        seconds=(0.8, 8),
        args=payloads.payment,
        lines=(
            "INFO capturing payment payment_id={payment_id} provider={provider}",
            "INFO provider answered status=succeeded elapsed={ms}ms",
        ),
        output=payloads.receipt,
        failures=failures.PAYMENT,
        flaky=0.04,
        doomed=0.01,
        snoozed=0.04,
        max_attempts=5,
        tags=("money", "audit"),
    ),
    Kind(
        name="subscription_renewal",
        queue="billing",
        share=1.5,
        seconds=(0.5, 4),
        args=payloads.renewal,
        lines=("INFO renewing {subscription_id} plan={plan}", "INFO invoice queued"),
        failures=failures.RENEWAL,
        later=0.5,
        max_attempts=12,
        tags=("money",),
        unique=True,
        doomed=0.03,
    ),
    Kind(
        name="report_export",
        queue="reports",
        share=3,
        seconds=(10, 40),
        args=payloads.report,
        lines=(
            "INFO building {report} format={format}",
            *(f"INFO read {percent} % of {{rows}} rows" for percent in range(10, 101, 10)),
            "INFO file written bytes={bytes}",
        ),
        output=payloads.report_file,
        failures=failures.REPORT,
        flaky=0.06,
        doomed=0.02,
        max_attempts=3,
        priority=3,
        tags=("back-office",),
    ),
    Kind(
        name="video_transcode",
        queue="media",
        share=2.2,
        seconds=(40, 150),
        args=payloads.video,
        lines=(
            "INFO probing {source} codec=prores",
            *(
                f"INFO {name} {percent} % speed={{speed}}x"
                for name in ("1080p", "720p", "480p")
                for percent in range(10, 101, 10)
            ),
            "INFO wrote playlist",
        ),
        failures=failures.VIDEO,
        flaky=0.06,
        max_attempts=3,
        priority=4,
        tags=("gpu",),
        unlimited=True,
    ),
    Kind(
        name="data_import",
        queue="imports",
        share=0.25,
        seconds=(15, 60),
        args=payloads.product_import,
        lines=(
            "INFO reading {file} rows={rows}",
            "WARNING row 1187: price is not a number, skipped value='12,90 EUR'",
            "INFO committed all rows",
        ),
        failures=failures.IMPORT,
        flaky=0.1,
        max_attempts=3,
        tags=("back-office",),
    ),
    Kind(
        name="cleanup_sessions",
        queue="default",
        share=0,
        seconds=(0.5, 5),
        args=payloads.cleanup,
        lines=("INFO deleted {rows} expired sessions older_than={older_than}",),
        failures=failures.CLEANUP,
        priority=4,
        periodic=timedelta(minutes=2),
    ),
)

BY_NAME = {kind.name: kind for kind in KINDS}
LANGUAGE = {queue.name: queue.language for queue in QUEUES}
