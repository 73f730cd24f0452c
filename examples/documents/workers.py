"""The workers, and how they work together. Any of them may be killed at any moment, and its job
worked again: what they write twice is there once.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.documents import stand_ins
from examples.documents.config import Settings
from examples.documents.jobs import (
    IndexFile,
    NotifyCustomer,
    ProcessFile,
    ProcessPage,
    ScanInbox,
)
from examples.documents.uploads import Uploads
from riverui import (
    BatchWorker,
    ClientConfig,
    ConcurrencyConfig,
    DeadLetterConfig,
    FairShare,
    Job,
    PartitionConfig,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    RateLimit,
    Worker,
    Workers,
    client_from_context,
    metadata_set,
    record_output,
    resumable_step,
)
from riverui.errors import WorkflowActive

# What is logged during a job is also kept with it: the dashboard shows it, live.
log = logging.getLogger(__name__)


@dataclass
class Deps:
    """What the workers work with."""

    uploads: Uploads
    settings: Settings


class TasksFailed(Exception):
    """Some tasks of a file have used up their attempts, or were cancelled."""


class _Retried:
    """Tries again after a few seconds, as most faults of models are over by then."""

    deps: Deps

    def next_retry(self, job: Job[Any]) -> datetime:
        """Return when a job that failed is tried again."""
        return datetime.now(UTC) + timedelta(seconds=self.deps.settings.retry_seconds * job.attempt)


@dataclass
class FileWorker(_Retried, Worker[ProcessFile]):
    """Splits a file, inserts a workflow of its pages, and sleeps until that has ended."""

    deps: Deps
    timeout = timedelta(minutes=5)

    async def work(self, job: Job[ProcessFile]) -> None:
        uploads, client = self.deps.uploads, client_from_context()
        document, customer, embedding = job.args.document, job.args.customer, job.args.embedding
        # Found again by the job and its name at each call.
        pages = client.workflows.new(job.args.name, parent=job)

        async def split() -> None:
            await uploads.split(document, stand_ins.split(await uploads.content(document)))

        # Not done again when the job wakes up, or is tried again.
        await resumable_step("split", split)
        if job.row.metadata_dict.get("failed_tasks"):
            # Another attempt at the file: its tasks that failed have one, too.
            metadata_set("failed_tasks", 0)
            with contextlib.suppress(WorkflowActive):
                await client.workflows.retry(pages.id, "failed_and_downstream")
        numbers = range(1, await uploads.page_count(document) + 1)
        pages.map(
            "page",
            [ProcessPage(document, number, customer, embedding) for number in numbers],
            then=IndexFile(document),
        )
        # Here the job snoozes, and takes no worker's place. It begins anew once all has ended.
        done = await pages.run()
        if failed := [name for name, task in done.items() if task.failed]:
            metadata_set("failed_tasks", len(failed))
            raise TasksFailed(f"{len(failed)} of {len(done)} tasks failed: {failed[:5]}")
        record_output({"pages": len(numbers)})
        await uploads.complete(document)


@dataclass
class PageWorker(_Retried, Worker[ProcessPage]):
    """Reads a page and embeds it, as its own args say."""

    deps: Deps

    async def work(self, job: Job[ProcessPage]) -> None:
        settings, args = self.deps.settings, job.args
        content = await self.deps.uploads.page(args.document, args.page)
        text = await stand_ins.read_page(content, job.attempt, seconds=settings.read_seconds)
        vector = await stand_ins.embed(text, args.embedding, seconds=settings.embed_seconds)
        await self.deps.uploads.embedded(args.document, args.page, vector)


@dataclass
class IndexWorker(BatchWorker[IndexFile]):
    """Sends up to a hundred files to the search index in one request."""

    deps: Deps
    max_delay = timedelta(milliseconds=500)
    poll_interval = timedelta(milliseconds=100)

    async def work_many(self, jobs: Sequence[Job[IndexFile]]) -> None:
        pages = await self.deps.uploads.index([job.args.document for job in jobs])
        log.info("indexed %s pages of %s files in one request", pages, len(jobs))


@dataclass
class NotifyCustomerWorker(Worker[NotifyCustomer]):
    """Takes the place of a mail, a message on a socket, or a webhook of the customer's."""

    deps: Deps

    async def work(self, job: Job[NotifyCustomer]) -> None:
        progress = await self.deps.uploads.progress(job.args.upload)
        log.info("upload %s is done: %s", job.args.upload, progress)
        record_output(progress)


@dataclass
class ScanInboxWorker(Worker[ScanInbox]):
    """Uploads the files in each customer's folder, and moves them to `.taken`."""

    deps: Deps

    async def work(self, job: Job[ScanInbox]) -> None:
        for folder in self.deps.settings.inbox_folders():
            paths = sorted(path for path in folder.iterdir() if path.is_file())
            if not paths:
                continue
            files = [(path.name, path.read_text()) for path in paths]
            # The same files make the same upload, should this be killed before they are moved.
            stamps = [(path.name, path.stat().st_mtime_ns) for path in paths]
            upload = hashlib.sha256(f"{folder.name} {stamps}".encode()).hexdigest()[:16]
            await self.deps.uploads.add(
                client_from_context(), upload, folder.name, files, self.deps.settings.embedding
            )
            (taken := folder / ".taken").mkdir(exist_ok=True)
            for path in paths:
                path.rename(taken / path.name)


def new_config(deps: Deps) -> ClientConfig:
    """Return how each replica's client works."""
    workers = Workers()
    for worker in (
        FileWorker,
        PageWorker,
        IndexWorker,
        NotifyCustomerWorker,
        ScanInboxWorker,
    ):
        workers.add(worker(deps))
    settings, by_customer = deps.settings, PartitionConfig(by_args=["customer"])
    # Customers in turn, so that one's 4,000 files do not stand before another's three.
    in_turn = FairShare(partition=by_customer)
    hour, look = timedelta(hours=1), PeriodicInterval(timedelta(seconds=5))
    return ClientConfig(
        workers=workers,
        queues={
            "default": QueueConfig(max_workers=5),
            "files": QueueConfig(max_workers=100, fair_share=in_turn),
            "pages": QueueConfig(
                max_workers=settings.pages_per_replica,
                concurrency=ConcurrencyConfig(
                    global_limit=settings.pages_per_customer, partition=by_customer
                ),
                fair_share=in_turn,
                rate_limit=RateLimit(limit=settings.embeddings_per_second),
                completed_job_retention_period=hour,
            ),
            # One batch at a time in each replica makes full ones.
            "index": QueueConfig(max_workers=1, completed_job_retention_period=hour),
        },
        periodic_jobs=[PeriodicJob(look, ScanInbox)] if settings.inbox else [],
        heartbeat_interval=timedelta(seconds=settings.heartbeat_seconds),
        # Pages that could not be read are kept for somebody to look at.
        dead_letter=DeadLetterConfig(enabled=True),
        soft_stop_timeout=timedelta(seconds=10),
    )
