"""Stands in for River's workers and leader in the demo: moves the shop's jobs by River's rules."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from riverui.demo.attempts import Attempt, begin
from riverui.demo.history import PAUSED_FOR, any_kind, encode, history, new_job
from riverui.demo.shop import BY_NAME, KINDS, LANGUAGE, QUEUES, Kind, client_ids
from riverui.storage.queries import number, read_blocks

_TICK = 0.5
"""Seconds."""
_NEW_PER_SECOND = 1.8
_BURST = 40
_COMPLETED_KEPT = 20_000
_PENDING_KEPT = 4
_FIRST_ID = 4_812_000
_INSERTED_AT_ONCE = 1_000


_loads = partial(json.loads, parse_float=Decimal)


@dataclass(kw_only=True, slots=True)
class _Run:
    """A running job: its attempt, what has been written of its log, and when it will heed a cancel."""

    attempt: Attempt
    logged: list[object]
    stops_at: datetime | None = None


class Mover:
    """Clients, leader and workers in one: `run` works until it is cancelled, then hands its jobs back."""

    def __init__(self, url: str, rng: Random) -> None:
        self._url = url
        self._rng = rng
        self._started_at = datetime.now(UTC)
        self._runs: dict[int, _Run] = {}
        self._due: dict[str, datetime] = {}
        self._blocks = read_blocks(Path(__file__).with_name("mover.sql").read_text(encoding="utf-8"))

    async def is_empty(self) -> bool:
        """Whether nothing has been inserted yet."""
        async with await self._connect() as connection:
            return not await self._run(connection, "queue_get_any")

    async def seed(self, *, jobs: int) -> None:
        """The shop's last day, for an empty database."""
        now = datetime.now(UTC)
        queues = [
            {
                "name": queue.name,
                "created_at": now - timedelta(days=41),
                "updated_at": now,
                "paused_at": now - PAUSED_FOR if queue.paused else None,
            }
            for queue in QUEUES
        ]
        async with await self._connect() as connection, connection.transaction():
            await self._run(connection, "sequence_start", id=_FIRST_ID)
            await self._run(connection, "queue_create", queues=encode(queues))
            rows = list(history(now, self._rng, jobs=jobs))
            for first in range(0, len(rows), _INSERTED_AT_ONCE):
                await self._run(
                    connection, "job_insert", jobs=encode(rows[first : first + _INSERTED_AT_ONCE])
                )
        async with await self._connect() as connection:
            await connection.execute("analyze")

    async def run(self) -> None:
        """Moves jobs until cancelled; a database that is away is waited for."""
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                async with await self._connect() as connection:
                    try:
                        await self._adopt(connection)
                        while True:
                            await self._tick(connection, datetime.now(UTC))
                            await asyncio.sleep(_TICK)
                    finally:
                        with contextlib.suppress(psycopg.Error):
                            await self._run(connection, "job_give_back", ids=list(self._runs))
                            await self._run(connection, "leader_resign", client=self._leader)
            await asyncio.sleep(1)

    @property
    def _leader(self) -> str:
        return client_ids("go", self._started_at)[0]

    async def _connect(self) -> AsyncConnection[dict[str, Any]]:
        connection = await AsyncConnection.connect(
            self._url, autocommit=True, cursor_factory=AsyncRawCursor, row_factory=dict_row
        )
        set_json_loads(_loads, connection)
        return connection

    async def _run(
        self, connection: AsyncConnection[dict[str, Any]], block: str, **values: Any
    ) -> list[dict[str, Any]]:
        sql, names = number(self._blocks[block])
        cursor = await connection.execute(sql.encode(), [values[name] for name in names])
        return await cursor.fetchall() if cursor.description else []

    async def _tick(self, connection: AsyncConnection[dict[str, Any]], now: datetime) -> None:
        await self._insert(connection, now)
        await self._lead(connection, now)
        await self._fetch(connection)
        await self._work(connection, now)

    async def _adopt(self, connection: AsyncConnection[dict[str, Any]]) -> None:
        """Goes on with jobs that history, or a demo that was killed, has left running."""
        rows = await self._run(
            connection,
            "job_get_running",
            kinds=list(BY_NAME),
            since=self._started_at - timedelta(hours=1),
        )
        for row in rows:
            if row["id"] not in self._runs:
                self._begin(row)

    def _begin(self, row: dict[str, Any]) -> None:
        attempt = begin(
            BY_NAME[row["kind"]],
            args=row["args"],
            metadata=row["metadata"],
            number=row["attempt"],
            max_attempts=row["max_attempts"],
            errors=row["errors"],
            started_at=row["started_at"].astimezone(UTC),
        )
        self._runs[row["id"]] = _Run(attempt=attempt, logged=list(attempt.logs))

    async def _insert(self, connection: AsyncConnection[dict[str, Any]], now: datetime) -> None:
        """New jobs: a trickle, a campaign every few minutes, and the periodic ones (the leader's work)."""
        kinds = [any_kind(self._rng) for _ in range(self._arrivals())]
        if self._is_due("campaign", now, timedelta(seconds=self._rng.uniform(100, 260))):
            kinds += [BY_NAME["push_notification"]] * _BURST
        kinds += [kind for kind in KINDS if kind.periodic and self._is_due(kind.name, now, kind.periodic)]
        if self._is_due("order on hold", now, timedelta(seconds=12)):
            held: list[Kind] = [BY_NAME["payment_capture"]]
        else:
            held = []
        rows = [new_job(kind, now, self._rng) for kind in kinds]
        rows += [new_job(kind, now, self._rng) | {"state": "pending"} for kind in held]
        if rows:
            await self._run(connection, "job_insert", jobs=encode(rows))
            await self._notify(connection, (row["queue"] for row in rows if row["state"] == "available"))
        if held:
            released = await self._run(
                connection, "job_release_pending", kinds=["payment_capture"], kept=_PENDING_KEPT
            )
            await self._notify(connection, (row["queue"] for row in released))

    def _arrivals(self) -> int:
        """How many jobs arrive within a tick: a Poisson process."""
        count, waited = 0, self._rng.expovariate(_NEW_PER_SECOND)
        while waited < _TICK:
            count, waited = count + 1, waited + self._rng.expovariate(_NEW_PER_SECOND)
        return count

    async def _notify(self, connection: AsyncConnection[dict[str, Any]], queues: Iterable[str]) -> None:
        if names := sorted(set(queues)):
            await self._run(connection, "job_insert_notify", queues=names)

    def _is_due(self, service: str, now: datetime, interval: timedelta) -> bool:
        """Whether it is time for a service; the first time is now."""
        if now < self._due.get(service, now):
            return False
        self._due[service] = now + interval
        return True

    async def _lead(self, connection: AsyncConnection[dict[str, Any]], now: datetime) -> None:
        """River's leader: election, scheduler, rescuer, cleaner; and what each client does for its queues."""
        if self._is_due("election", now, timedelta(seconds=5)):
            await self._run(connection, "leader_attempt_elect", client=self._leader)
        if self._is_due("scheduler", now, timedelta(seconds=5)):
            scheduled = await self._run(connection, "job_schedule")
            await self._notify(connection, (row["queue"] for row in scheduled))
        if self._is_due("rescuer", now, timedelta(seconds=30)):
            limited = [kind.name for kind in KINDS if not kind.unlimited]
            await self._run(connection, "job_rescue", kinds=limited)
        if self._is_due("cleaner", now, timedelta(seconds=30)):
            await self._run(connection, "job_clean", kept=_COMPLETED_KEPT)
        if self._is_due("queues", now, timedelta(minutes=10)):
            await self._run(connection, "queue_keep_alive", names=list(LANGUAGE))

    async def _fetch(self, connection: AsyncConnection[dict[str, Any]]) -> None:
        paused = {row["name"] for row in await self._run(connection, "queue_get_paused")}
        working = Counter(run.attempt.kind.queue for run in self._runs.values())
        for queue in QUEUES:
            free = queue.workers - working[queue.name]
            if queue.name in paused or free <= 0:
                continue
            client = self._rng.choice(client_ids(queue.language, self._started_at))
            for row in await self._run(
                connection,
                "job_get_available",
                client=client,
                free=free,
                kinds=list(BY_NAME),
                queue=queue.name,
            ):
                self._begin(row)

    async def _work(self, connection: AsyncConnection[dict[str, Any]], now: datetime) -> None:
        """Writes what running jobs have logged, and ends those whose time has come or that were cancelled."""
        for row in await self._run(connection, "job_get_cancelled", ids=list(self._runs)):
            run = self._runs[row["id"]]
            # A worker needs a moment to notice.
            run.stops_at = run.stops_at or now + timedelta(seconds=1)
        outcomes, logs = [], []
        for id_, run in list(self._runs.items()):
            cancelled = run.stops_at is not None and now >= run.stops_at
            if cancelled or now >= run.attempt.ends_at:
                outcomes.append({"id": id_} | run.attempt.outcome(now, self._rng, cancelled=cancelled))
                del self._runs[id_]
            elif (entries := run.attempt.logs_at(now)) != run.logged:
                logs.append({"id": id_, "log": entries})
                run.logged = entries
        if logs:
            await self._run(connection, "job_log", logs=encode(logs))
        if outcomes:
            await self._run(connection, "job_set_state_if_running", outcomes=encode(outcomes))
