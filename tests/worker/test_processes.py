"""`riverui worker --processes`: several processes that share the slots of each queue."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from riverui.cli.worker.processes.supervised import share
from tests.worker.conftest import HERE, StartWorker, WorkerProcess, ask, wait_for
from tests.worker.crews import StartCrew, start_crew as start_crew
from tests.worker.test_worker import failed


@pytest.mark.parametrize(
    ("argv", "environ", "words"),
    [
        (["shop:client", "--processes", "lots"], {}, "--processes is 'lots'"),
        (["shop:client", "--processes", "0"], {}, "processes must be from 1 to 256"),
        (["shop:client"], {"RIVERUI_MAX_MEMORY": "lots"}, "write it like 512MB"),
        (["shop:client", "--max-jobs", "0"], {}, "max jobs must be 1 or more"),
        (["shop:nobody", "--processes", "2"], {}, "'nobody' not found in shop"),
        (["shop:without_queues", "--processes", "2"], {}, "the client has no queues"),
        (["shop:client"], {"RIVERUI_PROCESSES": "auto"}, "cannot be reached"),
        (["shop:client", "--processes", "2"], {}, "cannot be reached"),
    ],
)
def test_errors_are_reported_once(argv: list[str], environ: dict[str, str], words: str) -> None:
    code, told = failed(*argv, **environ)
    assert words in told
    assert code == (1 if words == "cannot be reached" else 2)


def test_shares_are_dealt_in_turn() -> None:
    assert [share({"default": 5}, 2, number) for number in (1, 2)] == [
        {"default": 3},
        {"default": 2},
    ]
    # Queues with few slots are worked by different processes.
    few = {"a": 1, "b": 1, "c": 2}
    assert [share(few, 2, number) for number in (1, 2)] == [{"a": 1, "c": 1}, {"b": 1, "c": 1}]
    for processes in range(1, 9):
        shares = [share({"x": 7, "y": 3, "z": 11}, processes, n + 1) for n in range(processes)]
        for name, count in (("x", 7), ("y", 3), ("z", 11)):
            assert sum(each.get(name, 0) for each in shares) == count
        totals = [sum(each.values()) for each in shares]
        assert max(totals) - min(totals) <= 1


def test_processes_share_the_slots(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2", CLIENT_ID="me") as crew:
        first, second = crew.well()
        told = ask(crew.port)
        assert told[0] == 200
        assert told[1]["status"] == "ok"
        assert told[1]["queues"] == ["default", "other"]
        assert {each["client"] for each in told[1]["processes"]} == {f"me_{first}", f"me_{second}"}
        assert all(each["memory"] > 10_000_000 for each in told[1]["processes"])
        crew.insert("long", 9)
        wait_for(lambda: crew.running() in ({first: 3, second: 2}, {first: 2, second: 3}))
        crew.let_end(2)
        wait_for(lambda: len(crew.rows("select from at_work")) == 7)
        assert sorted(crew.running().values()) == [2, 3]
        assert crew.worker.said("worker has started", times=2)
        assert any(" process=2 " in line for line in crew.worker.lines)
        wait_for(lambda: ask(crew.port)[1]["leader"])
        assert sum(each["leader"] for each in crew.processes()) == 1
        crew.insert("long", 2, "other")
        wait_for(lambda: sum(crew.running().values()) == 6)
        crew.let_all_end()
        crew.completed(11)
        assert crew.most() == 6, "5 of the queue default, 1 of other"
        assert crew.worker.stop() == 0
        assert "supervisor has stopped" in crew.worker.lines[-1]
        assert sum("worker has stopped" in line for line in crew.worker.lines) == 2


def test_there_are_no_more_processes_than_slots(start_crew: StartCrew) -> None:
    with start_crew("--processes", "4", "--queue", "default", SLOTS="2") as crew:
        crew.worker.said("2 processes for 4")
        crew.well(2)
        crew.insert("short", 10)
        crew.completed(10)
        assert crew.most() <= 2
        assert crew.worker.stop() == 0


def test_a_process_that_was_killed_is_replaced(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2") as crew:
        victim, other = crew.well()
        crew.insert("long", 9)
        wait_for(lambda: sum(crew.running().values()) == 5)
        os.kill(victim, signal.SIGKILL)
        new = crew.well(but=[victim]) - {other}
        assert len(new) == 1
        wait_for(lambda: sum(crew.running().values()) == 5)
        assert crew.most() == 5
        told = ask(crew.port)[1]
        assert told["status"] == "ok"
        assert sum(each["restarts"] for each in told["processes"]) == 1
        line = crew.worker.said("has ended with signal SIGKILL")
        assert "is started again" in line
        crew.let_all_end()
        assert crew.worker.stop() == 0


def test_when_the_supervisor_was_killed_the_others_stop_gracefully(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2", "--soft-stop", "20s") as crew:
        pids = crew.well()
        crew.insert("long", 5)
        wait_for(lambda: sum(crew.running().values()) == 5)
        crew.worker.process.kill()
        crew.worker.said("the supervisor has ended", times=2)
        crew.let_all_end()
        crew.worker.said("worker has stopped", times=2)
        assert crew.rows("select distinct state::text from river_job") == [("completed",)]
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_when_what_starts_processes_was_killed_all_are_stopped(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2") as crew:
        (pid, *_) = crew.well()
        crew.insert("short", 5)
        crew.completed(5)
        fork_server = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert fork_server != crew.worker.process.pid
        os.kill(fork_server, signal.SIGKILL)
        assert crew.worker.process.wait(20) == 1
        crew.worker.hear_out()
        assert any("the fork server has ended" in line for line in crew.worker.lines)
        assert sum("worker has stopped" in line for line in crew.worker.lines) == 2


def test_a_program_that_never_loads_can_be_stopped(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; print('loads', flush=True); time.sleep(60)")
    worker = WorkerProcess(
        database_url, "slow:client", "--processes", "2", environ={}, folder=tmp_path
    )
    worker.said("loads")
    assert worker.stop() == 0
    assert worker.process.stdout is not None
    worker.process.stdout.close()


def test_never_more_jobs_at_once_whatever_happens(start_crew: StartCrew) -> None:
    with start_crew("--processes", "2", "--max-jobs", "25") as crew:
        victim, other = crew.well()
        crew.insert("short", 100)
        wait_for(crew.running)
        crew.worker.process.send_signal(signal.SIGHUP)
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        other = crew.well(but=[victim, other]).pop()
        crew.insert("short", 100)
        with suppress(ProcessLookupError):
            os.kill(other, signal.SIGTERM)
        wait_for(
            lambda: (
                crew.rows("select count(*) from river_job where state = 'available'") == [(0,)]
                and not crew.running()
            )
        )
        # Those of a process that was killed are left for the rescuer.
        assert 1 < crew.most() <= 5


class TestStop:
    """In three phases, all processes at once."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_running_jobs_may_end(self, start_crew: StartCrew, number: int) -> None:
        with start_crew("--processes", "2") as crew:
            crew.well()
            crew.insert("long", 5)
            wait_for(lambda: sum(crew.running().values()) == 5)
            # As to a whole group or container: it counts once.
            for pid in crew.pids():
                os.kill(pid, number)
            crew.worker.process.send_signal(number)
            wait_for(lambda: ask(crew.port)[1].get("status") == "stopping")
            assert ask(crew.port)[0] == 503
            crew.let_all_end()
            assert crew.worker.process.wait(20) == 0
            assert crew.rows("select distinct state::text from river_job") == [("completed",)]

    def test_then_they_are_cancelled(self, start_crew: StartCrew) -> None:
        with start_crew("--processes", "2", "--soft-stop", "100ms") as crew:
            crew.well()
            crew.insert("long", 5)
            wait_for(lambda: sum(crew.running().values()) == 5)
            assert crew.worker.stop() == 0
            assert crew.rows("select distinct state::text, attempt from river_job") == [
                ("available", 0)
            ]

    def test_another_signal_begins_the_next_phase(self, start_crew: StartCrew) -> None:
        with start_crew("--processes", "2", "--soft-stop", "5m") as crew:
            crew.well()
            crew.insert("long", 5)
            wait_for(lambda: sum(crew.running().values()) == 5)
            crew.worker.process.send_signal(signal.SIGINT)
            crew.worker.said("stopping 2 processes")
            assert crew.worker.stop(signal.SIGINT) == 0
            assert crew.rows("select distinct state::text from river_job") == [("available",)]


def test_processes_that_do_not_end_are_left(start_worker: StartWorker) -> None:
    options = ["--processes", "2", "--soft-stop", "200ms", "--hard-stop", "200ms"]
    with start_worker("shop:client", *options) as worker:
        worker.said("worker has started", times=2)
        job = worker.insert("deaf")
        worker.until(job, "running")
        assert worker.stop() == 1
        assert worker.job(job) == ("running", 1), "for the rescuer"


def test_a_crash_loop_is_told_and_others_go_on(start_crew: StartCrew, tmp_path: Path) -> None:
    code = (HERE / "crew.py").read_text()
    module = tmp_path / "crew.py"
    module.write_text(code)
    with start_crew("--processes", "2", folder=tmp_path) as crew:
        victim, other = crew.well()
        module.write_text("raise SystemExit(7)")
        os.kill(victim, signal.SIGKILL)
        assert "and is started again in" in crew.worker.said("has ended with exit code 7")
        wait_for(lambda: ask(crew.port)[1].get("status") == "degraded")
        assert ask(crew.port)[0] == 200
        module.write_text(code)
        assert other in crew.well()
        assert ask(crew.port)[1]["status"] == "ok"
        assert crew.worker.stop() == 0


def test_several_processes_reload(start_worker: StartWorker, tmp_path: Path) -> None:
    code = (HERE / "shop.py").read_text()
    module = tmp_path / "shop.py"
    module.write_text(code)
    with start_worker("shop:client", "--reload", "--processes=2", folder=tmp_path) as worker:
        worker.said("worker has started", times=2)
        module.write_text(code.replace("quick %s", "lively %s"))
        worker.said("shop.py has changed, restarting")
        worker.said("worker has started", times=4)
        job = worker.insert("quick")
        worker.said(f"lively {job}")
        assert worker.stop(signal.SIGINT) == 0


def test_logs_in_json_name_the_process(start_worker: StartWorker) -> None:
    with start_worker("shop:client", "--processes", "2", RIVER_LOG_FORMAT="json") as worker:
        worker.said("supervisor has started")
        worker.said("worker has started", times=2)
        assert worker.stop() == 0
    told = [json.loads(line) for line in worker.lines]
    assert {line.get("process") for line in told} == {None, 1, 2}
