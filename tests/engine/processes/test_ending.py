"""Time limits, cancels and stops of jobs in processes of their own, and processes that die."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from riverui.engine.limits import EngineLimits
from tests.engine.conftest import LONGEST_WAIT, Playground, Task, until
from tests.engine.processes.conftest import IsolatedPlayground
from tests.engine.processes.jobs import Counting
from tests.interop.look import eventually

SOON = timedelta(milliseconds=1)
"""A time limit that is over at once."""
LONG = timedelta(hours=1)
"""A time limit that no test lives to see."""


def alive(pid: int) -> bool:
    """Whether a process is there, and is more than an entry for its parent to read."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("segfault", r"JobProcessDied: .* killed by signal 11 \(SIGSEGV\)\."),
        ("leave", "JobProcessDied: .* ended with exit code 3 in the middle"),
        ("kill_itself", r"killed by signal 9 \(SIGKILL\): the system may be out of memory"),
        ("write_garbage", "it sent an invalid message"),
        ("hang_up", "ended with exit code 1 "),
    ],
)
async def test_the_error_says_how_a_process_died(
    what: str, words: str, apart: IsolatedPlayground
) -> None:
    row = await apart.acted(what)
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert re.search(words, row["errors"][0]["error"]), row["errors"]


async def test_a_process_that_dies_takes_its_own_job_alone(apart: IsolatedPlayground) -> None:
    apart.isolated()
    await apart.start(isolation_processes=2)
    other = await apart.act("until_told")
    pid = await apart.noted(f"begun-{other}")
    assert (await apart.acted("kill_itself"))["state"] == "available"
    apart.release("go")
    assert (await apart.in_state(other, "completed"))["metadata"]["output"] == pid
    # The process is replaced.
    assert (await apart.acted("where"))["state"] == "completed"


async def test_a_job_that_goes_on_after_its_time_limit_is_killed(apart: IsolatedPlayground) -> None:
    apart.isolated(timeout=timedelta(milliseconds=20))
    await apart.start(isolation_kill_after=timedelta(milliseconds=30))
    row = await apart.acted("deaf")
    assert row["errors"][0]["error"] == (
        "JobTimedOut: The job ran on for 0.03 s after its time limit, and its process was killed."
    )
    assert (row["state"], row["attempt"]) == ("available", 1)


async def test_a_job_that_heeds_its_time_limit_keeps_its_process(apart: IsolatedPlayground) -> None:
    apart.isolated(timeout=timedelta(milliseconds=20))
    await apart.start(isolation_kill_after=LONG)
    row = await apart.acted("until_asked")
    assert row["errors"][0]["error"] == (
        "JobTimedOut: The job took longer than its time limit of 0.02 s."
    )
    pid = await apart.noted(f"begun-{row['id']}")
    assert apart.processes.pids == (pid,)


async def test_a_hard_time_limit_kills(apart: IsolatedPlayground) -> None:
    apart.isolated(hard_timeout=timedelta(milliseconds=50))
    await apart.start(isolation_kill_after=LONG)
    row = await apart.acted("deaf")
    assert row["errors"][0]["error"] == (
        "JobTimedOut: The job took longer than its hard time limit of 0.05 s, and its process was"
        " killed."
    )
    assert (row["state"], row["attempt"]) == ("available", 1)


async def test_the_error_shows_where_the_job_was(apart: IsolatedPlayground) -> None:
    # Long enough for the job to be where it stays, in one of its first attempts at least.
    apart.isolated(timeout=timedelta(seconds=2))
    job_id = await apart.act("deaf")
    await apart.start(isolation_kill_after=SOON)

    async def deaf_trace() -> str:
        traces = [error["trace"] for error in (await apart.row(job_id))["errors"] or ()]
        return next((trace for trace in traces if "in deaf\n    time.sleep(60)\n" in trace), "")

    trace = await eventually(deaf_trace, within=4 * LONGEST_WAIT)
    assert trace.startswith("Traceback (most recent call last):\n  File")
    assert "riverui/engine" not in trace.partition("in deaf")[0]


async def test_between_the_limits_it_is_only_asked(apart: IsolatedPlayground) -> None:
    apart.isolated(timeout=SOON, hard_timeout=LONG)
    await apart.start(isolation_kill_after=SOON)
    job_id = await apart.act("until_told")
    await apart.noted(f"begun-{job_id}")
    apart.release("go")
    await apart.in_state(job_id, "completed")


async def test_each_job_may_have_its_own_hard_limit(apart: IsolatedPlayground) -> None:
    apart.worker(Counting(0))
    await apart.start()
    row = await apart.acted("counted", 0.05)
    assert "hard time limit of 0.05 s" in row["errors"][0]["error"]
    assert row["scheduled_at"].year == 2100
    assert (await apart.acted("counted"))["state"] == "completed"


async def test_a_job_that_ignores_sigterm_is_killed(apart: IsolatedPlayground) -> None:
    apart.isolated()
    job_id = await apart.act("deaf_to_signals")
    client = apart.make(
        isolation_processes=1,
        isolation_kill_after=SOON,
        limits=EngineLimits(process_term_seconds=0.01),
    )
    await client.start()
    pid = await apart.noted(f"begun-{job_id}")
    await client.job_cancel(job_id)
    await apart.in_state(job_id, "cancelled")
    assert not alive(pid)


async def test_a_sigterm_to_all_processes_of_a_service_leaves_the_end_to_the_client(
    apart: IsolatedPlayground,
) -> None:
    apart.isolated()
    job_id = await apart.act("until_told")
    await apart.start()
    os.kill(await apart.noted(f"begun-{job_id}"), signal.SIGTERM)
    apart.release("go")
    await apart.in_state(job_id, "completed")


async def test_what_a_job_has_started_is_killed_with_it(apart: IsolatedPlayground) -> None:
    apart.isolated()
    client = await apart.start(isolation_kill_after=SOON)
    job_id = await apart.act("with_a_program")
    program = await apart.noted(f"begun-{job_id}")
    assert alive(program)
    await client.job_cancel(job_id)
    await until(lambda: not alive(program))


async def test_a_cancelled_job_is_asked_first(apart: IsolatedPlayground) -> None:
    apart.isolated()
    client = await apart.start(isolation_kill_after=LONG)
    job_id = await apart.act("until_asked")
    pid = await apart.noted(f"begun-{job_id}")
    await client.job_cancel(job_id)
    row = await apart.in_state(job_id, "cancelled")
    assert row["errors"][0]["error"] == "JobCancelError: job cancelled remotely"
    assert apart.processes.pids == (pid,)


async def test_a_cancelled_job_that_goes_on_is_killed(apart: IsolatedPlayground) -> None:
    apart.isolated(hard_timeout=LONG)
    client = await apart.start(isolation_kill_after=SOON)
    job_id = await apart.act("deaf", 7)
    pid = await apart.noted(f"begun-{job_id}")
    await client.job_cancel(job_id)
    row = await apart.in_state(job_id, "cancelled")
    assert not alive(pid)
    # Its `finally` block has run, and its earlier reports are not lost.
    await apart.noted(f"tidied-{job_id}")
    assert row["metadata"]["seen"] == 7


async def test_jobs_beyond_the_processes_wait_and_can_be_cancelled(
    apart: IsolatedPlayground,
) -> None:
    apart.isolated(timeout=timedelta(milliseconds=300))
    client = await apart.start(isolation_processes=1, isolation_kill_after=LONG)
    first = await apart.act("until_told")
    await apart.noted(f"begun-{first}")
    waiting = [await apart.act("where") for _ in range(3)]
    for job_id in waiting:
        await apart.in_state(job_id, "running")
    await client.job_cancel(waiting[0])
    await apart.in_state(waiting[0], "cancelled")
    assert len(apart.processes.pids) == 1
    apart.release("go")
    # Their time limit begins with their work: they have not used it up.
    for job_id in waiting[1:]:
        assert (await apart.in_state(job_id, "completed"))["attempt"] == 1


async def test_processes_are_started_as_they_are_needed(apart: IsolatedPlayground) -> None:
    apart.isolated()
    await apart.start(isolation_processes=2)
    assert apart.processes.pids == ()
    held = [await apart.act("until_told") for _ in range(3)]
    await until(lambda: len(list(apart.folder.glob("begun-*"))) == 2)
    assert len(apart.processes.pids) == 2
    apart.release("go")
    for job_id in held:
        await apart.in_state(job_id, "completed")
    assert len(apart.processes.pids) == 2


async def test_a_process_is_replaced_after_so_many_jobs(apart: IsolatedPlayground) -> None:
    apart.isolated()
    await apart.start(isolation_max_jobs=2)
    pids = [(await apart.acted("where"))["metadata"]["output"]["pid"] for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    await until(lambda: not alive(pids[0]))


async def test_a_process_that_holds_too_much_is_replaced(apart: IsolatedPlayground) -> None:
    apart.isolated()
    # An interpreter with this suite's modules holds less, and with what the job hoards more.
    await apart.start(isolation_max_memory=200 << 20)
    first = (await apart.acted("where"))["metadata"]["output"]["pid"]
    assert (await apart.acted("hoard", 200 << 20))["metadata"]["output"] == first
    second = (await apart.acted("where"))["metadata"]["output"]["pid"]
    assert second != first
    assert (await apart.acted("where"))["metadata"]["output"]["pid"] == second


async def test_a_stop_waits_for_jobs_and_ends_the_processes(apart: IsolatedPlayground) -> None:
    apart.isolated()
    client = await apart.start()
    job_id = await apart.act("until_told")
    pid = await apart.noted(f"begun-{job_id}")
    stopping = asyncio.create_task(client.stop())
    apart.release("go")
    await stopping
    assert (await apart.row(job_id))["state"] == "completed"
    assert not alive(pid)


async def test_the_second_phase_of_a_stop_asks_and_gives_the_attempt_back(
    apart: IsolatedPlayground,
) -> None:
    apart.isolated()
    client = await apart.start(isolation_kill_after=LONG)
    job_id = await apart.act("until_asked")
    await apart.noted(f"begun-{job_id}")
    await client.stop_and_cancel()
    row = await apart.row(job_id)
    assert (row["state"], row["attempt"], row["errors"]) == ("available", 0, None)


async def test_the_third_phase_of_a_stop_kills_and_gives_the_attempts_back(
    apart: IsolatedPlayground,
) -> None:
    apart.isolated()
    client = await apart.start(isolation_kill_after=LONG)
    at_work, waiting = await apart.act("deaf"), await apart.act("deaf")
    await until(lambda: len(list(apart.folder.glob("begun-*"))) == 1)
    await apart.in_state(waiting, "running")
    await apart.in_state(at_work, "running")
    pids = apart.processes.pids
    await client.stop_and_abandon()
    for job_id in (at_work, waiting):
        row = await apart.row(job_id)
        assert (row["state"], row["attempt"], row["errors"]) == ("available", 0, None)
    assert not any(alive(pid) for pid in pids)


async def test_no_process_outlives_a_killed_client(apart: IsolatedPlayground) -> None:
    job_id, waiting = await apart.act("deaf"), await apart.act("deaf")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.engine.processes.client", apart.database_url,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    await until(lambda: len(list(apart.folder.glob("begun-*"))) == 2)
    children = [await apart.noted(f"begun-{each}") for each in (job_id, waiting)]
    assert all(alive(pid) for pid in children)
    os.kill(program.pid, signal.SIGKILL)
    await program.wait()
    await until(lambda: not any(alive(pid) for pid in children))
    assert not list(apart.folder.glob("tidied-*"))


async def test_a_module_that_cannot_be_imported_is_the_job_s_error(
    play: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_in_children.py").write_text(
        "import os\nassert os.getenv('NO_CHILD')\ndef work(job): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NO_CHILD", "1")
    import broken_in_children  # type: ignore[import-not-found]

    monkeypatch.delenv("NO_CHILD")
    play.workers.work(Task, isolation="process")(broken_in_children.work)
    row = await play.work()
    assert row["errors"][0]["error"] == "AssertionError"
    assert "broken_in_children.py" in row["errors"][0]["trace"]


async def test_an_interpreter_that_does_not_start_is_the_job_s_error(
    apart: IsolatedPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/bin/false")
    row = await apart.acted("where")
    assert "ended before it could begin" in row["errors"][0]["error"]
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/nowhere/python")
    row = await apart.acted("where")
    assert "could not be started" in row["errors"][0]["error"]


async def test_where_no_process_can_be_started_every_job_that_waits_for_one_fails(
    apart: IsolatedPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/nowhere/python")
    apart.isolated()
    waiting = [await apart.act("where", max_attempts=1) for _ in range(3)]
    await apart.start()
    for job_id in waiting:
        row = await apart.in_state(job_id, "discarded")
        assert "could not be started" in row["errors"][0]["error"]
