"""The demo shop's use of riverui's features: workflows, sequences, concurrency and rate limits,
batches and encrypted args.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar

from riverui.demo.customers import Timetable
from riverui.domain.partitions import PartitionConfig
from riverui.domain.schedules import CronSchedule
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.periodic import PeriodicJob
from riverui.engine.retention import Retention
from riverui.engine.work.context import record_output
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
from riverui.features.encryption.engine import Encryption
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.retention.engine import QueueRetention
from riverui.features.sequences.engine.opts import SequenceOpts
from riverui.features.workflows.waits.domain import SignalTerm, TimerTerm, Wait
from riverui.storage.interface import SQL, Driver

log = logging.getLogger("shop.fulfilment")

_KEY = b"a key of 32 bytes, for the demo!"
"""Encrypts the args of payouts. A real one is a secret."""
_PAGES = 24
"""Pages of a book: a wide workflow, whose jobs are scanned within a minute."""
_BOOK_EVERY = timedelta(minutes=10)
"""Time between two books: longer than one takes, so that most workflows are orders."""
_ORDER_EVERY = timedelta(seconds=20)
"""Time between two orders: about as long as one takes, so that one or two are running."""
_APPROVED_AFTER = timedelta(seconds=40)
"""How long a person takes to approve an order."""
_OTHERS_EVERY = timedelta(seconds=25)
"""Time between two rounds of the other jobs, so that they are a small part of all jobs."""
_TENANTS = ("acme", "globex", "initech", "umbrella", "hooli")
_DECLINED = 0.06
"""Share of orders whose payment fails finally."""
_REJECTED = 1 / 15
"""Share of questions that the vendor rejects: one a minute."""
_REJECTED_FOR = timedelta(minutes=2)
"""How long rejected questions remain jobs before they become dead letters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A step of an order."""

    kind: ClassVar[str] = "order_step"
    order: int
    step: str

    def insert_opts(self) -> InsertOpts:
        """Return the queue of orders."""
        return InsertOpts(queue="orders", max_attempts=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanPage:
    """A page of a book."""

    kind: ClassVar[str] = "scan_page"
    book: int
    page: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeAccount:
    """A change of a customer's account: changes of one customer are worked in order."""

    kind: ClassVar[str] = "change_account"
    customer_id: int
    cents: int

    def insert_opts(self) -> InsertOpts:
        """Return the sequence of the customer."""
        return InsertOpts(queue="accounts", sequence=SequenceOpts(by_args=["customer_id"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncCatalogue:
    """An article of a tenant's catalogue: two at once for each tenant."""

    kind: ClassVar[str] = "sync_catalogue"
    tenant_id: str
    article: int

    def insert_opts(self) -> InsertOpts:
        """Return the queue with a limit for each tenant."""
        return InsertOpts(queue="tenants")


@dataclass(frozen=True, kw_only=True, slots=True)
class AskVendor:
    """A question to a vendor who allows twenty a minute."""

    kind: ClassVar[str] = "ask_vendor"
    parcel: int

    def insert_opts(self) -> InsertOpts:
        """Return the queue with the vendor's rate limit, without retries."""
        return InsertOpts(queue="vendor", max_attempts=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class SendNewsletter:
    """A newsletter to one customer: eight go out together."""

    kind: ClassVar[str] = "send_newsletter"
    to: str

    def insert_opts(self) -> InsertOpts:
        """Return the queue whose jobs are worked in batches."""
        return InsertOpts(queue="newsletters")


@dataclass(frozen=True, kw_only=True, slots=True)
class PayOut:
    """A payout, whose args are encrypted in the database."""

    kind: ClassVar[str] = "pay_out"
    iban: str
    cents: int

    def insert_opts(self) -> InsertOpts:
        """Return the queue of accounts."""
        return InsertOpts(queue="accounts")


@dataclass(frozen=True, kw_only=True, slots=True)
class CloseBooks:
    """The nightly closing."""

    kind: ClassVar[str] = "close_books"

    def insert_opts(self) -> InsertOpts:
        """Return the queue of accounts."""
        return InsertOpts(queue="accounts")


class UnknownParcel(Exception):
    """The vendor does not know that parcel."""


def fulfilment_client(driver: Driver, rng: Random) -> Client:
    """Return the client of these queues, which may become the leader."""
    return Client(
        driver,
        ClientConfig(
            id=f"fulfilment-0_{datetime.now(UTC):%Y_%m_%dT%H_%M_%S_%f}",
            plugins=[Encryption(keys=[_KEY], include_kinds=[PayOut.kind])],
            queues={
                "orders": QueueConfig(max_workers=12),
                "scans": QueueConfig(max_workers=4),
                "accounts": QueueConfig(max_workers=10),
                "tenants": QueueConfig(
                    max_workers=20,
                    concurrency=ConcurrencyConfig(
                        global_limit=2, partition=PartitionConfig(by_args=["tenant_id"])
                    ),
                ),
                "vendor": QueueConfig(
                    max_workers=10,
                    rate_limit=RateLimit(limit=20, per=timedelta(minutes=1), burst=5),
                ),
                "newsletters": QueueConfig(max_workers=2),
            },
            workers=_workers(rng),
            **leader_settings(driver),
        ),
    )


def leader_settings(driver: Driver, *periodic_jobs: PeriodicJob) -> dict[str, Any]:
    """Return the common settings of all clients that may lead: durable periodic jobs and the
    retention of failed ones; on Postgres a nightly one as well, and the vendor's.
    """
    settings: dict[str, Any] = {
        "dead_letter": DeadLetterConfig(enabled=True),
        "durable_periodic_jobs": DurablePeriodicJobsConfig(enabled=True),
        "periodic_jobs": periodic_jobs,
    }
    if SQL not in driver.capabilities:
        return settings
    nightly = PeriodicJob(CronSchedule("30 2 * * *"), CloseBooks, id=CloseBooks.kind)
    return settings | {
        "features": [QueueRetention({"vendor": Retention(discarded=_REJECTED_FOR)})],
        "periodic_jobs": [*periodic_jobs, nightly],
    }


def _workers(rng: Random) -> Workers:
    workers = Workers()

    async def take(least: float, most: float) -> None:
        await asyncio.sleep(rng.uniform(least, most))

    @workers.work(Step)
    async def step(job: Job[Step]) -> None:
        log.info("order %d: %s", job.args.order, job.args.step)
        await take(0.5, 3)
        if job.args.step == "charge" and job.args.order % 100 < _DECLINED * 100:
            raise RuntimeError("the card was declined: do not honor")
        record_output({"order": job.args.order, "done": job.args.step})

    @workers.work(ScanPage)
    async def scan(job: Job[ScanPage]) -> None:
        await take(1.5, 4.5)

    @workers.work(ChangeAccount)
    async def change(job: Job[ChangeAccount]) -> None:
        await take(1, 3)

    @workers.work(SyncCatalogue)
    async def sync(job: Job[SyncCatalogue]) -> None:
        await take(1, 4)

    @workers.work(AskVendor)
    async def ask(job: Job[AskVendor]) -> None:
        await take(0.2, 0.8)
        if job.args.parcel % 1_000 < _REJECTED * 1_000:
            raise UnknownParcel(f"parcel {job.args.parcel} is unknown")

    @workers.work_many(SendNewsletter)
    async def send(jobs: Sequence[Job[SendNewsletter]]) -> None:
        log.info("%d newsletters in one call", len(jobs))
        await take(0.5, 1.5)

    @workers.work(PayOut)
    async def pay(job: Job[PayOut]) -> None:
        await take(0.5, 2)

    @workers.work(CloseBooks)
    async def close(job: Job[CloseBooks]) -> None:
        await take(5, 15)

    return workers


class Orders:
    """Inserts the jobs of these features."""

    def __init__(self, client: Client, rng: Random) -> None:
        self._client = client
        self._rng = rng
        self._timetable = Timetable()
        self._to_approve: list[tuple[datetime, str]] = []
        """Workflows to approve, with the time."""

    async def insert(self, now: datetime) -> None:
        """Insert the jobs that are due."""
        due = self._timetable.is_due
        if due("order", now, _ORDER_EVERY):
            await self._order(now)
        if due("book", now, _BOOK_EVERY):
            await self._book()
        while self._to_approve and self._to_approve[0][0] <= now:
            _, workflow_id = self._to_approve.pop(0)
            await self._client.workflows.signal(workflow_id, "approval", {"by": "finance"})
        if jobs := self._others(now):
            await self._client.insert_many(jobs)

    async def _order(self, now: datetime) -> None:
        """Insert an order; large ones wait for an approval."""
        number = self._rng.randrange(10_000, 100_000)

        def step(name: str) -> Step:
            return Step(order=number, step=name)

        order = self._client.workflows.new(f"Order {number}")
        charge = order.add("charge", step("charge"))
        pack = order.add("pack", step("pack"), deps=[charge])
        label = order.add("print label", step("print label"), deps=[charge])
        deps = [pack, label]
        if large := self._rng.random() < 0.3:
            approved = SignalTerm("approved", key="approval", label="Approved by finance")
            late = TimerTerm("late", after=timedelta(minutes=5), label="Nobody answered in time")
            wait = Wait("approved || late", [approved, late])
            deps.append(order.add("approve", step("approve"), deps=[charge], wait=wait))
        ship = order.add("ship", step("ship"), deps=deps)
        order.add("send receipt", step("send receipt"), deps=[ship])
        await order.insert()
        if large:
            self._to_approve.append((now + _APPROVED_AFTER, order.id))

    async def _book(self) -> None:
        number = self._rng.randrange(1_000, 10_000)
        book = self._client.workflows.new(f"Scan of book {number}")
        book.map(
            "page",
            [ScanPage(book=number, page=page) for page in range(1, _PAGES + 1)],
            InsertOpts(queue="scans", priority=3),
            then=Step(order=number, step="bind"),
        )
        await book.insert()

    def _others(self, now: datetime) -> list[Any]:
        rng, due = self._rng, self._timetable.is_due
        jobs: list[Any] = []
        if due("others", now, _OTHERS_EVERY):
            customer = rng.randrange(40)
            jobs += [
                *(ChangeAccount(customer_id=customer, cents=cents) for cents in (-450, 990)),
                AskVendor(parcel=rng.randrange(10**9)),
                SyncCatalogue(tenant_id=rng.choice(_TENANTS), article=rng.randrange(100_000)),
            ]
        if due("newsletter", now, timedelta(minutes=3)):
            jobs += [SendNewsletter(to=f"customer-{n}@example.com") for n in range(8)]
        if due("payout", now, timedelta(seconds=50)):
            iban = f"DE{rng.randrange(10**20):020}"
            jobs.append(PayOut(iban=iban, cents=rng.randrange(100, 90_000)))
        if due("import", now, timedelta(minutes=6)):
            jobs += [SyncCatalogue(tenant_id="acme", article=n) for n in range(6)]
        return jobs
