"""Starts worker processes, replaces those that end or reach a limit, and stops all of them."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from riverui.cli.worker.health import health_served
from riverui.cli.worker.processes.fork import Exited, Forked, fork_worker
from riverui.cli.worker.processes.health import health
from riverui.cli.worker.processes.member import Member
from riverui.cli.worker.processes.worker_process import WorkerProcess
from riverui.cli.worker.settings import WorkerConfig
from riverui.engine.shutdown import signals
from riverui.engine.waiting import backoff, between
from riverui.ipc.child_process import Channel

if TYPE_CHECKING:
    from riverui.cli.worker.processes.figures import Figures

log = logging.getLogger("riverui.worker")

_STABLE_SECONDS = 10.0
"""Seconds of work after which a process that ends is restarted at once: one that ends sooner may
do so each time.
"""
_READY_SECONDS = 60.0
"""Seconds for a process to load the program before its predecessor stops waiting for it."""
_LEAVE_SECONDS = 5.0
"""Seconds for a process to end after it has abandoned its jobs: little is left to do."""

_CLEAN_EXIT_CODES = (None, 0, -signal.SIGTERM)
"""Exit codes without abandoned jobs: the last is of a process that had not started."""


class Supervisor:
    """All processes of one `riverui worker`."""

    def __init__(self, config: WorkerConfig, fork_server: socket.socket) -> None:
        self.members: list[Member] = []
        self.stopping = False
        self._config = config
        self._figures: Figures | None = None
        if config.metrics:
            # Load prometheus_client only if metrics are enabled.
            from riverui.cli.worker.processes.figures import Figures

            self._figures = Figures(self.members)
        self._fork_server = fork_server
        self._forks: Channel[Forked | Exited] = Channel(
            Forked | Exited, self._on_fork, self._on_fork_server_end
        )
        self._new: dict[int, list[WorkerProcess]] = {}
        """Requested processes by number, until they have a pid."""
        self._by_pid: dict[int, WorkerProcess] = {}
        self._failed = False
        """Whether a process has abandoned jobs or was killed."""

    async def run(self) -> int:
        """Run the processes until SIGINT or SIGTERM; return the exit code.

        Raise ListenError if the health port is in use.
        """
        config = self._config
        with signals() as asked, self._reload_on_signal():
            async with health_served(
                self._health,
                host=config.health_host,
                port=config.health_port,
                file=config.health_file,
                metrics=self._figures.text if self._figures else None,
            ) as address:
                await self._forks.open(self._fork_server.dup())
                try:
                    return await self._run(asked, address)
                finally:
                    self._forks.close()

    async def _run(self, asked: asyncio.Queue[None], address: str) -> int:
        working = asyncio.create_task(self._work(address), name="riverui processes")
        stop = asyncio.create_task(asked.get())
        lost = asyncio.create_task(self._forks.closed.wait())
        try:
            await asyncio.wait({working, stop, lost}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
        finally:
            self.stopping = True
            for task in (working, stop, lost):
                task.cancel()
            await asyncio.wait({working, stop, lost})
            await self._stop(asked)
        if self._forks.closed.is_set():
            log.error("the fork server has ended, so all processes were stopped")
            return 1
        log.info("supervisor has stopped")
        return int(self._failed)

    async def _work(self, address: str) -> int:
        """Run processes in all places until cancelled; return the exit code of the first one if it
        does not start.
        """
        if (code := await self._start_first()) is not None:
            return code
        log.info(
            "supervisor has started",
            extra={"processes": len(self.members)} | ({"health": address} if address else {}),
        )
        services = [self._replace_all(), *(self._keep_running(member) for member in self.members)]
        if self._figures is not None:
            services.append(self._figures.run())
        # None of them ends by itself.
        await asyncio.gather(*services)
        return 0

    async def _start_first(self) -> int | None:
        """Start the first process alone, so that an error that stops all of them is logged once;
        return its exit code if it does not start.
        """
        first = Member(1)
        self.members.append(first)
        process = first.current = await self._start(first)
        first.lend()
        await _wait_for_any(process.started, process.ended)
        if not process.started.is_set():
            code = process.exit_code or 1
            return code if code > 0 else 1
        wanted = self._config.processes
        possible = min(wanted, sum(process.slots.values()))
        if possible < wanted:
            log.warning(
                "%s processes for %s: all queues together have no more jobs at once",
                possible,
                wanted,
            )
        self.members += [Member(number) for number in range(2, possible + 1)]
        self._limit_jobs(first)
        return None

    async def _start(self, member: Member) -> WorkerProcess:
        """Start a process; return it when it is ready or has ended."""
        process = WorkerProcess(member.number, lambda: self._changed(member))
        if self._figures is not None:
            self._figures.follow(process)
        member.starting = process
        ours, theirs = socket.socketpair()
        with theirs:
            await process.connect(ours)
            self._new.setdefault(member.number, []).append(process)
            try:
                fork_worker(self._fork_server, member.number, theirs)
            except OSError:
                self._forks.close()
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await _wait_for_any(process.ready, process.ended)
        except TimeoutError:
            log.warning(
                "process %s takes more than %s s to load", member.number, int(_READY_SECONDS)
            )
            await _wait_for_any(process.ready, process.ended)
        member.starting = None
        return process

    async def _keep_running(self, member: Member) -> None:
        """Keep a process in this place, and replace it when it ends or reaches a limit."""
        failures = 0
        while True:
            process = member.current
            if process is None:
                process = member.current = await self._start(member)
                self._limit_jobs(member)
                member.lend()
            why = await self._wait_for_end(member, process)
            if why == "ended":
                member.current = None
                seconds = 0.0
                failures = 1 if _lived(process) >= _STABLE_SECONDS else failures + 1
                # Restart at once the first time, unless it did not start at all.
                tries = failures - 1 if process.client else failures
                seconds = backoff(tries) if tries else 0.0
                member.restarts["ended"] += 1
                log.warning(
                    "process %s has ended with %s, and is started again%s",
                    member.number,
                    _code(process.exit_code),
                    f" in {seconds:.0f} s" if seconds else "",
                    extra={"pid": process.pid},
                )
                await asyncio.sleep(seconds)
                continue
            failures = 0 if await self._replace(member, process, why) else failures + 1
            if why == "reload":
                member.renewed.set()
            elif failures:
                await _wait_for_any(process.ended, seconds=backoff(failures))

    async def _replace(self, member: Member, process: WorkerProcess, why: str) -> bool:
        """Start a replacement while the old process finishes jobs; return whether it started."""
        log.info("process %s is replaced: %s", member.number, _REASONS[why], extra=_about(process))
        new = await self._start(member)
        if new.ended.is_set():
            log.error(
                "process %s is not replaced, as the new one has ended with %s",
                member.number,
                _code(new.exit_code),
            )
            return False
        member.leaving.append(process)
        member.current = new
        member.restarts[why] += 1
        process.stop()
        self._limit_jobs(member)
        member.lend()
        return True

    async def _wait_for_end(self, member: Member, process: WorkerProcess) -> str:
        """Wait until the process has ended or is to be replaced, and return why."""
        config = self._config
        while True:
            member.changed.clear()
            if process.ended.is_set():
                return "ended"
            if member.reload.is_set():
                member.reload.clear()
                return "reload"
            if process.stopping:
                return "signal"
            if config.max_memory and process.memory > config.max_memory:
                return "memory"
            if member.most_jobs and process.worked >= member.most_jobs:
                return "jobs"
            await member.changed.wait()

    def _limit_jobs(self, member: Member) -> None:
        # Processes that began together are not replaced together.
        member.most_jobs = between(0.9, 1.0) * (self._config.max_jobs or 0)

    def _changed(self, member: Member) -> None:
        member.lend()
        member.changed.set()

    async def _health(self) -> Mapping[str, object]:
        return await health(self.members, stopping=self.stopping)

    @contextmanager
    def _reload_on_signal(self) -> Iterator[None]:
        """Handle SIGHUP: reload the program."""
        self._wanted = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._wanted.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def _replace_all(self) -> None:
        """Replace one process after another at each SIGHUP, until one cannot be replaced."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            log.info("reloading: each process is replaced by a new one")
            for member in self.members:
                before = member.current
                member.renewed.clear()
                member.reload.set()
                member.changed.set()
                await member.renewed.wait()
                if member.current is before:
                    log.error("the reload has ended: other processes go on with what they have")
                    break
            else:
                log.info("all processes were replaced")

    async def _stop(self, asked: asyncio.Queue[None]) -> None:
        """Stop all processes in three phases; each begins after its time or at another signal."""
        config = self._config
        phases = ((1, config.soft_stop), (2, config.hard_stop), (3, None))
        for phase, span in phases:
            processes = self._processes()
            if not processes:
                return
            seconds = _LEAVE_SECONDS if span is None else span.total_seconds()
            if phase == 1:
                ending = "" if len(processes) == 1 else "es"
                log.info("stopping %s process%s: %s", len(processes), ending, _for(span))
            for process in processes:
                process.stop(phase)
            await self._all_ended(asked if phase < 3 else None, seconds)
        for process in self._processes():
            log.error("process %s does not end, and is killed", process.number)
            self._failed = True
            process.signal(signal.SIGKILL)
        await self._all_ended(None, _LEAVE_SECONDS)

    async def _all_ended(self, asked: asyncio.Queue[None] | None, seconds: float) -> None:
        """Wait for all processes to end, or for the time or a signal of the next phase."""
        processes = self._processes()
        ends = asyncio.gather(*(process.ended.wait() for process in processes))
        wanted: set[asyncio.Future[object]] = {asyncio.ensure_future(ends)}
        if asked is not None:
            wanted.add(asyncio.ensure_future(asked.get()))
        try:
            await asyncio.wait(wanted, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in wanted:
                each.cancel()
            await asyncio.gather(*wanted, return_exceptions=True)
        self._failed |= any(process.exit_code not in _CLEAN_EXIT_CODES for process in processes)

    def _processes(self) -> list[WorkerProcess]:
        return [process for member in self.members for process in member.processes]

    def _on_fork(self, report: Forked | Exited) -> None:
        if isinstance(report, Exited):
            self._by_pid.pop(report.pid).exited(report.exit_code)
            return
        process = self._new[report.number].pop(0)
        process.pid = report.pid
        if report.pid:
            self._by_pid[report.pid] = process
        else:
            process.exited(1)

    def _on_fork_server_end(self, error: ValueError | None) -> None:
        for process in self._processes():
            process.end_with_channel()


_REASONS = {
    "jobs": "it has worked enough jobs",
    "memory": "it takes too much memory",
    "reload": "the program is reloaded",
    "signal": "it received a signal",
}
"""Why a process is replaced."""


def _about(process: WorkerProcess) -> dict[str, object]:
    return {"pid": process.pid, "memory": process.memory, "worked": process.worked}


def _code(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"signal {signal.Signals(-exit_code).name}"
    return f"exit code {exit_code}"


def _for(span: timedelta | None) -> str:
    return f"running jobs may finish, for {span.total_seconds():g} s" if span else "at once"


def _lived(process: WorkerProcess) -> float:
    return asyncio.get_running_loop().time() - process.began_at


async def _wait_for_any(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set or the time has passed."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
