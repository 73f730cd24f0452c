"""A client's heartbeats from its start to its stop, if the database has the table for them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from riverui.domain.queues import BatchTerms, QueueTerms
from riverui.engine.client_context import ClientContext
from riverui.engine.config import NO_LIMIT
from riverui.engine.queue_config import QueueConfig
from riverui.engine.service import keep_running
from riverui.engine.waiting import pass_on_cancellation, within
from riverui.engine.work.attempt import Cause
from riverui.engine.work.producer import Producer
from riverui.engine.work.workers import Workers
from riverui.errors import RiveruiError
from riverui.features.heartbeats.engine.client_rescuer import ClientRescuer
from riverui.features.heartbeats.engine.pulse import Pulse
from riverui.features.heartbeats.store import ClientLife, ClientStore

_LAST_SECONDS = 5.0
"""Seconds that deleting the client's row may take; if it fails, the client is declared
dead later.
"""
_QUIET_SECONDS = 0.05
"""Seconds between two checks for jobs still on their way to a client that was declared dead."""


class Heartbeats:
    """Registers a client, so that others rescue its jobs if it dies, and rescues those
    of others.
    """

    def __init__(self, client: ClientContext, producers: Mapping[str, Producer]) -> None:
        self._client = client
        self._held_back = False
        self._known = asyncio.Event()
        self._leaves_behind = False
        self._logger = client.logger
        self._producers = producers
        self._pulse: Pulse | None = None
        self._rescuer = ClientRescuer(client, may_judge=self._may_judge)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def life(self) -> ClientLife | None:
        """The client's registration; None if it is not registered or was declared dead."""
        return self._pulse.life if self._pulse is not None else None

    @property
    def trusted(self) -> bool:
        """Whether the client has certainly not been declared dead."""
        return self._pulse is not None and self._pulse.trusted

    async def start(self) -> None:
        """Begin; return once the client is registered, or cannot be for now."""
        if self._client.config.heartbeat_interval == NO_LIMIT:
            return
        self._pulse = Pulse(self._client, self, asyncio.get_running_loop(), self._known.set)
        for name, run in (("heartbeats", self._run), (ClientRescuer.name, self._rescuer.run)):
            self._tasks.append(
                asyncio.create_task(keep_running(name, run, self._logger), name=f"riverui {name}")
            )
        await self._known.wait()

    def leave_behind(self) -> None:
        """Let the client be declared dead after its end, instead of deleting its row."""
        self._leaves_behind = True

    async def stop(self, *, jobs_left: bool) -> None:
        """End; delete the client's row if it leaves no jobs that others would have to rescue."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        life = self._pulse.life if self._pulse else None
        if life is None or jobs_left or self._leaves_behind:
            return
        try:
            async with self._client.driver.autocommit() as executor:
                await within(_LAST_SECONDS, ClientStore(executor).client_delete(life))
        except (RiveruiError, TimeoutError) as error:
            self._logger.info("the client will be declared dead though it has stopped: %s", error)

    def status(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Return the slots by queue (maximum, taken) and the number of jobs; thread-safe."""
        producers = dict(self._producers)
        queues = {name: producer.slots.usage for name, producer in producers.items()}
        return queues, sum(producer.slots.running for producer in producers.values())

    def terms(self) -> dict[str, QueueTerms]:
        """Return the rules by which queues are worked, if any; thread-safe."""
        found = {
            name: _terms(producer.config, self._client.config.workers)
            for name, producer in dict(self._producers).items()
        }
        return {name: terms for name, terms in found.items() if terms.any}

    def kinds(self) -> Collection[str]:
        """Return the kinds that are worked; thread-safe."""
        workers = self._client.config.workers
        return () if workers is None else workers.kinds

    def hold_back(self) -> None:
        """Stop fetching, and cancel the running jobs."""
        self._held_back = True
        for producer in self._producers.values():
            self.admit(producer)

    def admit(self, producer: Producer) -> None:
        """Let a producer fetch only if the client may."""
        if self._held_back:
            producer.hold_back(Cause.SILENT)

    async def quiet(self) -> None:
        """Wait until no more jobs are on their way."""
        while True:
            if not any(producer.slots.expecting for producer in self._producers.values()):
                return
            await asyncio.sleep(_QUIET_SECONDS)

    def go_on(self) -> None:
        """Resume fetching."""
        self._held_back = False
        for producer in self._producers.values():
            producer.go_on()

    def rescue(self) -> None:
        """Look soon for clients to be declared dead."""
        self._rescuer.look()

    def _may_judge(self) -> bool:
        return self._pulse is not None and self._pulse.steady

    async def _run(self) -> None:
        """Look for the table now and then, and send heartbeats while it exists."""
        assert self._pulse is not None
        while True:
            pass_on_cancellation()
            if await self._has_table():
                await self._client.beside("riverui-heartbeats").run(self._pulse.run)
            self._known.set()
            await asyncio.sleep(self._client.limits.look_for_clients_seconds)

    async def _has_table(self) -> bool:
        try:
            async with self._client.driver.autocommit() as executor:
                return await ClientStore.installed(executor)
        except RiveruiError as error:
            # The parts of the client that need the database report it.
            self._logger.debug("cannot check whether the table of clients exists: %s", error)
            return False


def _terms(config: QueueConfig, workers: Workers | None) -> QueueTerms:
    units = [workers.get(kind) for kind in workers.kinds] if workers is not None else []
    return QueueTerms(
        rate_limit=None if config.rate_limit is None else config.rate_limit.as_terms(),
        fair_share=None if config.fair_share is None else config.fair_share.as_terms(),
        ephemeral=config.ephemeral,
        batches={
            unit.kind: BatchTerms(max_count=unit.batch.max_count, max_delay=unit.batch.max_delay)
            for unit in units
            if unit is not None and unit.batch is not None
        },
    )
