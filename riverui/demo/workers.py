"""The demo shop's workers: real ones, that take their time, log, and end as each job's fate will
have it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from random import Random
from typing import Any

from riverui.demo.attempts import Plan, message_of, plan
from riverui.demo.failures import Failure
from riverui.demo.history import encode
from riverui.demo.incidents.incident import Trouble
from riverui.demo.mishaps import happen
from riverui.demo.payloads import Args, Line
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

_LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
}
_NAP = 0.1
"""Seconds after which a thread looks whether it should end."""


class ShopArgs:
    """Holds args of any kind of the shop, whose decimals keep all their digits as JSON numbers."""

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

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.log = logging.getLogger(f"shop.{kind.name}")
        self.timeout = NO_LIMIT if kind.unlimited else None

    async def work(self, job: Job[ShopArgs]) -> None:
        """Do what the plan says."""
        plan = self.plan(job)
        for seconds, line in self.steps(plan):
            await asyncio.sleep(seconds)
            self.tell(line)
        self.end(plan, job)

    def plan(self, job: Job[ShopArgs]) -> Plan:
        """Return what this attempt will do."""
        metadata = json.loads(job.metadata)
        fate = str(metadata.get("trace_id", job.id))
        return plan(self.kind, job.args.data, fate, job.attempt, metadata.get("snoozes", 0))

    def steps(self, plan: Plan) -> Iterator[tuple[float, Line | None]]:
        """Yield seconds to wait for, and the line to log after that; no line at the end."""
        elapsed = 0.0
        for moment, line in plan.lines:
            if line[0] in _LEVELS:
                yield moment - elapsed, line
                elapsed = moment
        yield plan.seconds - elapsed, None

    def tell(self, line: Line | None) -> None:
        """Log a line."""
        if line:
            level, message, attributes = line
            self.log.log(_LEVELS[level], "%s", message_of(message, attributes))

    def end(self, plan: Plan, job: Job[ShopArgs]) -> None:
        """Return the attempt's output, or raise."""
        if plan.snooze is not None:
            raise JobSnooze(plan.snooze)
        if plan.failure is None:
            if plan.output is not None:
                record_output(json.loads(encode(plan.output)))
        elif plan.gives_up:
            raise JobCancel(plan.failure.error.removeprefix("JobCancelError: "))
        else:
            self.go_wrong(plan, job)

    def go_wrong(self, plan: Plan, job: Job[ShopArgs]) -> None:
        """Raise what the plan has in store."""
        try:
            happen(self.kind.name, plan.mishap, job.args.data)
        except Exception as error:
            self.log.error("attempt failed: %s", error)
            raise


class ThreadWorker(ShopWorker):
    """Works in a thread, since its work would block the loop, and looks for itself whether
    to end.
    """

    def work(self, job: Job[ShopArgs]) -> None:  # type: ignore[override]  # either way is a worker
        """Do what the plan says."""
        plan = self.plan(job)
        for seconds, line in self.steps(plan):
            ends_at = time.monotonic() + seconds
            while (rest := ends_at - time.monotonic()) > 0:
                time.sleep(min(rest, _NAP))
                raise_if_cancelled()
            self.tell(line)
        self.end(plan, job)


class TranscodeWorker(ShopWorker):
    """Works in steps: after a failure it goes on with the rendition that failed."""

    async def work(self, job: Job[ShopArgs]) -> None:
        """Make one rendition after the other."""
        plan = self.plan(job)
        fate = Random(f"{job.id} {job.attempt}")
        lines = self.kind.lines(fate, job.args.data)
        names = [rendition["name"] for rendition in job.args.data["renditions"]]  # type: ignore[attr-defined]
        failing = fate.choice(names) if plan.failure else None
        self.tell(lines[0])
        for name in names:
            passes = [line for line in lines if line[1].startswith(name)]
            seconds = max(plan.seconds, self.kind.seconds[0]) / len(names) / len(passes)
            await resumable_step(
                name, partial(self._encode, passes, seconds, plan if name == failing else None, job)
            )
        self.tell(lines[-1])

    async def _encode(
        self, passes: list[Line], seconds: float, fails: Plan | None, job: Job[ShopArgs]
    ) -> None:
        for done, line in enumerate(passes, 1):
            await asyncio.sleep(seconds)
            if fails and done > len(passes) // 2:
                self.end(fails, job)
            self.tell(line)


class ImportWorker(ShopWorker):
    """Keeps a cursor: after a failure it goes on behind the batch that was committed last."""

    async def work(self, job: Job[ShopArgs]) -> None:
        """Import batch by batch."""
        plan = self.plan(job)
        rows = int(job.args.data.get("rows", 20_000))  # type: ignore[call-overload]

        async def batches(done: int) -> None:
            self.log.info("reading %s from row %s", job.args.data.get("file"), done + 1)
            while done < rows:
                await asyncio.sleep(plan.seconds / 20)
                done = min(rows, done + max(rows // 20, 1))
                resumable_set_cursor(done)
                self.log.info("committed up to row %s of %s", done, rows)
                if plan.failure and done > rows * 0.6:
                    self.end(plan, job)

        await resumable_step_cursor("rows", batches, start=0)
        record_output({"rows": rows})


_SPECIAL = {
    "image_resize": ThreadWorker,
    "video_transcode": TranscodeWorker,
    "data_import": ImportWorker,
}


class TroubledWorker(ShopWorker):
    """Works a kind with which something is wrong."""

    def __init__(self, kind: Kind, trouble: Trouble) -> None:
        super().__init__(kind)
        self._trouble = trouble

    def plan(self, job: Job[ShopArgs]) -> Plan:
        """Return what this attempt will do."""
        found, trouble = super().plan(job), self._trouble
        if trouble.seconds:
            found = replace(found, seconds=trouble.seconds)
        if Random(f"{job.id} {job.attempt}").random() < trouble.failing:
            failure = Failure(error=trouble.error)
            found = replace(found, failure=failure, gives_up=False, snooze=None)
        return found

    def go_wrong(self, plan: Plan, job: Job[ShopArgs]) -> None:
        """Raise what is wrong, or what the plan has in store."""
        if plan.failure is None or plan.failure.error != self._trouble.error:
            super().go_wrong(plan, job)
        price: Any = None
        self.log.error("attempt failed: %s", self._trouble.error)
        Decimal(1) + price


def shop_workers(troubles: Mapping[str, Trouble] | None = None) -> Workers:
    """Return a worker for each kind of the shop; something may be wrong with some."""
    workers = Workers()
    for kind in KINDS:
        trouble = (troubles or {}).get(kind.name)
        workers.add(
            _SPECIAL.get(kind.name, ShopWorker)(kind)
            if trouble is None
            else TroubledWorker(kind, trouble),
            args_type=args_type(kind),
        )
    return workers
