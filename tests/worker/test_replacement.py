"""Processes that have had enough are replaced by others, which get their slots."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.worker.conftest import HERE, ask, wait_for
from tests.worker.crews import StartCrew, start_crew as start_crew


def test_slots_pass_from_one_to_the_other(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2") as crew:
        old = crew.well()
        crew.insert("long", 20)
        wait_for(lambda: sum(crew.running().values()) == 5)
        crew.worker.process.send_signal(signal.SIGHUP)
        crew.worker.said("all processes were replaced")
        # The old ones have all the slots, and the new ones wait for them.
        wait_for(lambda: {each["status"] for each in crew.processes()} == {"stopping", "waiting"})
        assert ask(crew.port)[1]["status"] == "ok"
        assert set(crew.running()) == old
        for ended in range(1, 6):
            crew.let_end(1)
            wait_for(lambda: sum(crew.running().values()) == 5)
            new = {pid: n for pid, n in crew.running().items() if pid not in old}
            assert sum(new.values()) == ended
        assert crew.well(but=tuple(old))
        assert not old.intersection(crew.running())
        assert crew.most() == 5
        crew.worker.process.send_signal(signal.SIGTERM)
        crew.worker.said("stopping 2 processes")
        crew.let_all_end()
        assert crew.worker.process.wait(20) == 0


def test_after_so_many_jobs(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2", "--max-jobs", "10") as crew:
        old = crew.well()
        crew.insert("short", 60)
        crew.completed(60)
        assert crew.well(but=tuple(old))
        assert "it has worked enough jobs" in crew.worker.said("is replaced", times=2)
        assert crew.most() <= 5
        assert crew.worker.stop() == 0


def test_that_takes_too_much_memory(start_crew: StartCrew) -> None:
    with start_crew("--max-memory", "120MB") as crew:
        (old,) = crew.well(1)
        crew.insert("greedy", 2)
        assert crew.well(1, but=[old])
        assert "it takes too much memory" in crew.worker.said("is replaced")
        wait_for(lambda: not Path(f"/proc/{old}").exists())
        assert crew.rows("select distinct state::text from river_job") == [("completed",)]
        assert crew.worker.stop() == 0


def test_that_was_told_to_stop(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2") as crew:
        old, other = crew.well()
        crew.insert("long", 5)
        wait_for(lambda: sum(crew.running().values()) == 5)
        os.kill(old, signal.SIGTERM)
        assert "it received a signal" in crew.worker.said("is replaced")
        crew.let_all_end()
        assert other in crew.well(but=[old])
        assert crew.worker.stop() == 0


def test_by_one_that_runs_the_code_as_it_is_now(start_crew: StartCrew, tmp_path: Path) -> None:
    code = (HERE / "crew.py").read_text()
    module = tmp_path / "crew.py"
    module.write_text(code)
    with start_crew("--processes", "2", folder=tmp_path) as crew:
        old = crew.well()
        module.write_text("this is no Python")
        crew.worker.process.send_signal(signal.SIGHUP)
        crew.worker.said("other processes go on with what they have")
        assert crew.well() == old
        module.write_text(code + "\nprint('as it is now', flush=True)\n")
        crew.worker.process.send_signal(signal.SIGHUP)
        crew.worker.said("as it is now", times=2)
        assert crew.well(but=tuple(old))
        assert crew.worker.stop() == 0
