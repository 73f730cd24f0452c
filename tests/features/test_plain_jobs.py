"""A job without configured features runs no code of a feature."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import riverui.features
from riverui.engine.config import NO_LIMIT
from tests.engine.conftest import Playground, Task

FEATURES = str(Path(riverui.features.__file__).parent)


async def test_a_plain_job_runs_no_code_of_a_feature(play: Playground, own_tables: None) -> None:
    # Charts are configured unless they are switched off, and count each attempt.
    await play.start(charts=False, leader_election_disabled=True, heartbeat_interval=NO_LIMIT)
    first = await play.client.insert(Task("first"))
    await play.in_state(first.job.id, "completed")
    called: set[str] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(FEATURES):
            called.add(f"{frame.f_code.co_filename[len(FEATURES) :]} {frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        ids = [row.job.id for row in await play.client.insert_many([Task("a"), Task("b")])]
        for job_id in ids:
            await play.in_state(job_id, "completed")
    finally:
        sys.setprofile(None)
    assert called == set()
