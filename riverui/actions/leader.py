"""What a person or a program does to the client that leads."""

from __future__ import annotations

import json

from riverui.storage.interface import NOTIFYING, Executor


async def request_resign(executor: Executor) -> None:
    """Ask the leader, whoever it is, to resign; clients that do not listen hear nothing of it."""
    message = {"action": "request_resign", "leader_id": ""}
    await NOTIFYING.on(executor).notify_many(
        "river_leadership", [json.dumps(message, separators=(",", ":"))]
    )
