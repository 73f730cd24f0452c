"""The demo shop's workers: real workers that carry out the plan of each attempt."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from random import Random
from typing import Any

from riverui.demo.attempts import Plan, plan, plan_failure
from riverui.demo.failures import UpstreamError
from riverui.demo.history import encode
from riverui.demo.incidents import Fault
from riverui.demo.payloads import Args
from riverui.demo.shop import KINDS, Kind
from riverui.engine.config import NO_LIMIT
from riverui.engine.work.context import raise_if_cancelled, record_output
from riverui.engine.work.resumable import (
    resumable_set_cursor,
    resumable_step,
    resumable_step_cursor,
)
from riverui.engine.work.worker import Job, JobCancel, JobSnooze, Worker
from riverui.engine.work.workers import Workers

_NAP = 0.1
"""Seconds after which a thread checks whether its job was cancelled."""
_BATCHES = 20
"""Parts of an import, which are committed one after the other."""


class ShopArgs:
    """Args of any kind of the shop, whose decimals keep all their digits as JSON numbers."""

    kind: str

    def __init__(self, data: Args) -> None:
        self.data = data

    def to_json(self) -> str:
        """Return the args as they are stored."""
        return encode(self.data)

    @classmethod
    def from_json(cls, text: str) -> ShopArgs:
        """Return the args as they were stored."""
        return cls(json.loads(text, parse_float=Decimal))


@cache
def args_type(kind: Kind) -> type[ShopArgs]:
    """Return the type of the args of one kind."""
    return type(kind.name, (ShopArgs,), {"kind": kind.name})


class ShopWorker(Worker[Any]):
    """Works one kind of the shop's jobs."""

    def __init__(self, kind: Kind, faults: Mapping[str, Fault]) -> None:
        self.kind = kind
        self.logger = logging.getLogger(f"shop.{kind.name}")
        self.timeout = NO_LIMIT if kind.unlimited else None
        self._faults = faults

    async def work(self, job: Job[ShopArgs]) -> None:
        """Carry out the plan."""
        made, elapsed = self.plan(job), 0.0
        for moment, line in made.lines:
            await asyncio.sleep(moment - elapsed)
            self.log(line)
            elapsed = moment
        await asyncio.sleep(made.seconds - elapsed)
        if made.failure and not made.failure.raises:
            # Raised in this place, so that the trace has one frame: then errors are grouped by
            # their messages.
            raise UpstreamError(made.error)
        self.end(made, job)

    def plan(self, job: Job[ShopArgs]) -> Plan:
        """Return the plan of this attempt."""
        metadata, args = json.loads(job.metadata), job.args.data
        fate = str(metadata.get("trace_id", job.id))
        made = plan(self.kind, args, fate, job.attempt, metadata.get("snoozes", 0))
        fault = self._faults.get(self.kind.name)
        if fault is None:
            return made
        seconds = fault.seconds or made.seconds
        rng = Random(f"{job.id} {job.attempt}")
        if fault.failure and rng.random() < fault.failing:
            return plan_failure(self.kind, args, fault.failure, seconds, rng)
        return replace(made, seconds=seconds)

    def log(self, line: str) -> None:
        """Log a line, which begins with its level."""
        level, _, message = line.partition(" ")
        self.logger.log(getattr(logging, level), "%s", message)

    def end(self, made: Plan, job: Job[ShopArgs]) -> None:
        """Record the attempt's output, or raise its error."""
        if made.snooze is not None:
            raise JobSnooze(made.snooze)
        if made.cancels:
            raise JobCancel(made.error)
        if made.failure and made.failure.raises:
            made.failure.raises(job.args.data)
        if made.output is not None:
            record_output(json.loads(encode(made.output)))


class ThreadWorker(ShopWorker):
    """Works in a thread, as blocking code must, and checks whether its job was cancelled."""

    def work(self, job: Job[ShopArgs]) -> None:  # type: ignore[override]  # either way is a worker
        """Carry out the plan."""
        made, started = self.plan(job), time.monotonic()
        for moment, line in (*made.lines, (made.seconds, "")):
            while (rest := started + moment - time.monotonic()) > 0:
                time.sleep(min(rest, _NAP))
                raise_if_cancelled()
            if line:
                self.log(line)
        self.end(made, job)


class TranscodeWorker(ShopWorker):
    """Works in steps: after a failure it resumes at the rendition that failed."""

    async def work(self, job: Job[ShopArgs]) -> None:
        """Create one rendition after the other."""
        made = self.plan(job)
        names = [rendition["name"] for rendition in job.args.data["renditions"]]
        failing = Random(f"{job.id} {job.attempt}").choice(names) if made.failure else None
        seconds = max(made.seconds, self.kind.seconds[0]) / len(names)
        for name in names:
            fails = made if name == failing else None
            await resumable_step(name, partial(self._encode, name, seconds, fails, job))
        self.log("INFO wrote playlist")

    async def _encode(
        self, name: str, seconds: float, fails: Plan | None, job: Job[ShopArgs]
    ) -> None:
        for percent in range(10, 101, 10):
            await asyncio.sleep(seconds / 10)
            if fails and percent > 50:
                self.end(fails, job)
            self.log(f"INFO {name} {percent} %")


class ImportWorker(ShopWorker):
    """Stores a cursor: after a failure it resumes after the last committed batch."""

    async def work(self, job: Job[ShopArgs]) -> None:
        """Import batch by batch."""
        made = self.plan(job)
        rows = int(job.args.data["rows"])

        async def batches(done: int) -> None:
            self.log(f"INFO reading {job.args.data['file']} from row {done + 1}")
            while done < rows:
                await asyncio.sleep(made.seconds / _BATCHES)
                done = min(rows, done + max(rows // _BATCHES, 1))
                resumable_set_cursor(done)
                self.log(f"INFO committed up to row {done} of {rows}")
                if made.failure and done > rows * 0.6:
                    self.end(made, job)

        await resumable_step_cursor("rows", batches, start=0)
        record_output({"rows": rows})


_WORKERS = {
    "image_resize": ThreadWorker,
    "video_transcode": TranscodeWorker,
    "data_import": ImportWorker,
}


def shop_workers(faults: Mapping[str, Fault]) -> Workers:
    """Return a worker for each kind of the shop, which has the faults that are there by then."""
    workers = Workers()
    for kind in KINDS:
        worker = _WORKERS.get(kind.name, ShopWorker)
        workers.add(worker(kind, faults), args_type=args_type(kind))
    return workers
