"""The health of all processes of one `riverui worker`, as one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from riverui.cli.worker.processes.member import Member
from riverui.cli.worker.processes.worker_process import WorkerProcess

_ANSWER_SECONDS = 2.8
"""Seconds for a process to answer: more than its database gets, less than the 3 to 5 that
orchestrators give a probe.
"""
_WORST = ("no database", "not answering", "starting", "stopping")
"""Statuses if no process works: the first that one of the processes has."""


async def health(members: Sequence[Member], *, stopping: bool) -> dict[str, object]:
    """Return the status of all processes together and of each: `ok`, `degraded` if only some work,
    or why none does.
    """
    asked = [(member, process) for member in members for process in member.processes]
    found = await asyncio.gather(*(_process_health(member, process) for member, process in asked))
    found += [_missing(member) for member in members if not member.processes]
    return {
        "status": _status(found, len(members), stopping=stopping),
        "database": any(each.get("database") for each in found),
        "last_fetched_at": max(
            (at for each in found if (at := each.get("last_fetched_at"))), default=None
        ),
        "leader": any(each.get("leader") for each in found),
        "queues": sorted({queue for each in found for queue in each.get("queues", ())}),
        "running": sum(each.get("running", 0) for each in found),
        "started": any(each.get("started") for each in found),
        "processes": sorted(found, key=lambda each: (each["process"], each.get("pid", 0))),
    }


def _status(processes: Sequence[Mapping[str, Any]], members: int, *, stopping: bool) -> str:
    if stopping:
        return "stopping"
    well = len({each["process"] for each in processes if each["status"] in ("ok", "waiting")})
    if well:
        return "ok" if well == members else "degraded"
    found = {each["status"] for each in processes}
    return next((status for status in _WORST if status in found), "starting")


async def _process_health(member: Member, process: WorkerProcess) -> dict[str, Any]:
    """Return the status of one process."""
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
        # It is ready, but its predecessor still uses all of its slots.
        answer["status"] = "waiting"
    return {**about, **answer}


def _missing(member: Member) -> dict[str, Any]:
    """Return the status of a place whose process has ended and is about to start again."""
    return {
        "process": member.number,
        "restarts": member.restarts.total(),
        "status": "starting",
    }
