"""How all processes of one `riverui worker` are, told as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from riverui.cli.worker.processes.worker_process import WorkerProcess

if TYPE_CHECKING:
    from riverui.cli.worker.processes.supervisor import Member, Supervisor

_ANSWER_SECONDS = 2.8
"""Seconds for a process to answer: more than its database gets, less than the 3 to 5 that
orchestrators give a probe.
"""
_WORST = ("no database", "not answering", "starting", "stopping")
"""What is told of all where no process works: what most needs somebody to look at it."""


async def health(supervisor: Supervisor) -> dict[str, object]:
    """Return how all processes are: `ok`, `degraded` where only some work, or what holds them up;
    and each of them.
    """
    members = supervisor.members
    asked = [(member, process) for member in members for process in member.processes]
    told = await asyncio.gather(*(_told(member, process) for member, process in asked))
    told += [_missing(member) for member in members if not member.processes]
    return {
        "status": _status(told, len(members), stopping=supervisor.stopping),
        "database": any(each.get("database") for each in told),
        "last_fetched_at": max(
            (at for each in told if (at := each.get("last_fetched_at"))), default=None
        ),
        "leader": any(each.get("leader") for each in told),
        "queues": sorted({queue for each in told for queue in each.get("queues", ())}),
        "running": sum(each.get("running", 0) for each in told),
        "started": any(each.get("started") for each in told),
        "processes": sorted(told, key=lambda each: (each["process"], each.get("pid", 0))),
    }


def _status(told: Sequence[Mapping[str, Any]], members: int, *, stopping: bool) -> str:
    if stopping:
        return "stopping"
    well = len({each["process"] for each in told if each["status"] in ("ok", "waiting")})
    if well:
        return "ok" if well == members else "degraded"
    found = {each["status"] for each in told}
    return next((status for status in _WORST if status in found), "starting")


async def _told(member: Member, process: WorkerProcess) -> dict[str, Any]:
    """Return how one process is."""
    about = {
        "process": member.number,
        "pid": process.pid,
        "memory": process.memory,
        "restarts": member.restarts.total(),
    }
    if not process.ready.is_set():
        return {**about, "status": "starting"}
    answer = await process.ask("health", seconds=_ANSWER_SECONDS)
    if answer is None:
        status = "ended" if process.ended.is_set() else "not answering"
        return {**about, "status": status, "client": process.client}
    if member.leaving and not process.started.is_set():
        # It is ready, and its predecessor still works with all of its slots.
        answer["status"] = "waiting"
    return {**about, **answer}


def _missing(member: Member) -> dict[str, Any]:
    """Return what is told of a place whose process has ended and is about to start again."""
    return {
        "process": member.number,
        "restarts": member.restarts.total(),
        "status": "starting",
    }
