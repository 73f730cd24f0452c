"""The made-up shop behind the demo: its queues, workers and kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from random import Random

from riverui.demo import payloads
from riverui.demo.failures import GO, PYTHON, Failure
from riverui.demo.payloads import Args, Line


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """Describes a queue, the language of the workers that serve it, and how many jobs they work at
    once.
    """

    name: str
    language: str
    workers: int
    paused: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Describes a kind of job; `share` of all new jobs are of it."""

    name: str
    queue: str
    share: float
    seconds: tuple[float, float]
    """Shortest and longest usual run."""
    args: Callable[[Random], Args]
    lines: Callable[[Random, Mapping[str, object]], list[Line]]
    output: Callable[[Random, Mapping[str, object]], object] | None = None
    failures: tuple[Failure, ...]
    flaky: float = 0.02
    """Share of attempts that fail and may succeed the next time."""
    doomed: float = 0.0
    """Share of jobs that can never succeed."""
    snoozed: float = 0.0
    """Share of first attempts that put themselves off."""
    later: float = 0.0
    """Share that is scheduled for a later time."""
    max_attempts: int = 25
    priority: int = 1
    tags: tuple[str, ...] = ()
    periodic: timedelta | None = None
    unique: bool = False
    unlimited: bool = False
    """Has no time limit, so River's rescuer leaves it alone, however long it runs."""


QUEUES = (
    Queue(name="default", language="go", workers=6),
    Queue(name="mailers", language="go", workers=5),
    Queue(name="webhooks", language="go", workers=8),
    Queue(name="billing", language="go", workers=3),
    Queue(name="media", language="python", workers=8),
    Queue(name="reports", language="python", workers=3),
    Queue(name="imports", language="python", workers=2, paused=True),
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
        args=payloads.email_args,
        lines=payloads.email_lines,
        failures=GO["email_send"],
        doomed=0.008,
        later=0.06,
        max_attempts=12,
        tags=("transactional",),
    ),
    Kind(
        name="webhook_delivery",
        queue="webhooks",
        share=20,
        seconds=(0.2, 6),
        args=payloads.webhook_args,
        lines=payloads.webhook_lines,
        failures=GO["webhook_delivery"],
        flaky=0.05,
        doomed=0.012,
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
        args=payloads.push_args,
        lines=payloads.push_lines,
        failures=GO["push_notification"],
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
        args=payloads.index_args,
        lines=payloads.index_lines,
        failures=GO["search_index_update"],
        priority=3,
        doomed=0.006,
        max_attempts=12,
    ),
    Kind(
        name="image_resize",
        queue="media",
        share=8,
        seconds=(2, 11),
        args=payloads.image_args,
        lines=payloads.image_lines,
        output=payloads.image_output,
        failures=PYTHON["image_resize"],
        doomed=0.008,
        max_attempts=4,
        priority=2,
    ),
    Kind(
        name="fraud_check",
        queue="default",
        share=6,
        seconds=(0.5, 6),
        args=payloads.fraud_args,
        lines=payloads.fraud_lines,
        output=payloads.fraud_output,
        failures=GO["fraud_check"],
        tags=("risk",),
        doomed=0.01,
        max_attempts=12,
    ),
    Kind(
        name="payment_capture",
        queue="billing",
        share=5,
        seconds=(0.8, 8),
        args=payloads.payment_args,
        lines=payloads.payment_lines,
        output=payloads.payment_output,
        failures=GO["payment_capture"],
        flaky=0.04,
        doomed=0.01,
        snoozed=0.04,
        max_attempts=5,
        tags=("money", "audit"),
    ),
    Kind(
        name="invoice_render",
        queue="reports",
        share=4,
        seconds=(1, 7),
        args=payloads.invoice_args,
        lines=payloads.invoice_lines,
        output=payloads.file_output,
        failures=PYTHON["invoice_render"],
        doomed=0.004,
        max_attempts=10,
    ),
    Kind(
        name="subscription_renewal",
        queue="billing",
        share=1.5,
        seconds=(0.5, 4),
        args=payloads.renewal_args,
        lines=payloads.renewal_lines,
        failures=GO["subscription_renewal"],
        later=0.5,
        max_attempts=12,
        tags=("money",),
        unique=True,
        doomed=0.03,
    ),
    Kind(
        name="report_export",
        queue="reports",
        share=2.2,
        seconds=(12, 50),
        args=payloads.report_args,
        lines=payloads.report_lines,
        output=payloads.file_output,
        failures=PYTHON["report_export"],
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
        args=payloads.video_args,
        lines=payloads.video_lines,
        failures=PYTHON["video_transcode"],
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
        args=payloads.import_args,
        lines=payloads.import_lines,
        failures=PYTHON["data_import"],
        flaky=0.1,
        max_attempts=3,
        tags=("back-office",),
    ),
    Kind(
        name="cleanup_sessions",
        queue="default",
        share=0,
        seconds=(0.5, 5),
        args=payloads.cleanup_args,
        lines=payloads.cleanup_lines,
        failures=GO["cleanup_sessions"],
        priority=4,
        periodic=timedelta(minutes=2),
    ),
    Kind(
        name="ledger_reconcile",
        queue="billing",
        share=0,
        seconds=(6, 25),
        args=payloads.ledger_args,
        lines=payloads.ledger_lines,
        output=payloads.ledger_output,
        failures=GO["ledger_reconcile"],
        flaky=0.08,
        tags=("money", "audit"),
        periodic=timedelta(minutes=15),
    ),
)

BY_NAME = {kind.name: kind for kind in KINDS}
LANGUAGE = {queue.name: queue.language for queue in QUEUES}
