"""`riverui job insert`, `logs` and `wait`, on the database and on the API."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.cases import cases
from tests.cli.conftest import Both, execute
from tests.cli.test_job_verbs import way
from tests.test_cli import Run

__all__ = ["way"]

Rows = Callable[[str], list[tuple[object, ...]]]


class TestInsert:
    """A new job."""

    def test_it_is_as_it_was_asked_for(self, run: Run, way: dict[str, str], rows: Rows) -> None:
        asked = ["--queue", "mail", "--priority", "2", "--max-attempts", "7", "--tag", "vip"]
        asked += ["--tag", "new-one", "--metadata", '{"trace": 7}', "--delay", "1h"]
        code, out, err = run("job", "insert", "mail_send", '{"to": 1.00}', *asked, **way)
        assert (code, out, err) == (0, "Inserted job 101 (scheduled).\n", "")
        assert rows(
            "select kind, args::text, queue, priority, max_attempts, tags, metadata ->> 'trace'"
            " from river_job where id = 101"
        ) == [("mail_send", '{"to": 1.00}', "mail", 2, 7, ["vip", "new-one"], "7")]
        found = rows("select scheduled_at from river_job where id = 101")[0][0]
        assert isinstance(found, datetime)
        assert timedelta(minutes=59) < found - datetime.now(UTC) < timedelta(minutes=61)

    def test_args_come_from_standard_input(
        self, run: Run, way: dict[str, str], rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO('{"from": "stdin"}\n'))
        code, out, _ = run("job", "insert", "mail_send", "-", "--json", **way)
        assert code == 0
        assert json.loads(out) == {
            "id": 101,
            "state": "available",
            "unique_skipped_as_duplicate": False,
        }
        assert rows("select args ->> 'from' from river_job where id = 101") == [("stdin",)]

    def test_a_unique_job_is_there_once(self, run: Run, way: dict[str, str]) -> None:
        asked = ["job", "insert", "report_daily", '{"day": 1}', "--unique"]
        assert run(*asked, **way)[1] == "Inserted job 101 (available).\n"
        assert run(*asked, **way)[1] == "Job 101 exists already (available).\n"

    def test_what_makes_no_sense_is_one_line_and_exit_code_2(self, both: Both) -> None:
        with cases() as case:
            for argv, words in (
                (["mail_send", "{"], "ARGS:"),
                (["mail_send", "order=7"], "ARGS: write JSON, like '{\"order\": 7}'"),
                (["mail_send", "[]"], "JSON object"),
                (["mail_send", '{}, "queue": "x"'], "ARGS:"),
                (["mail_send", "{}", "--metadata", "x"], "--metadata:"),
                (["mail_send", "{}", "--at", "tomorrow"], "--at tomorrow"),
                (["mail_send", "{}", "--delay", "soon"], "--delay soon"),
                (
                    ["mail_send", "{}", "--delay", "1s", "--at", "2026-11-21T09:00:00Z"],
                    "choose one",
                ),
                (["mail_send", "{}", "--priority", "9"], "--priority"),
                (["no kind"], "`kind`"),
                ([], "KIND"),
            ):
                with case(argv):
                    code, out, err = both("job", "insert", *argv)
                    assert (code, out) == (2, "")
                    assert err.count("\n") == 1
                    assert words in err


class TestLogs:
    """What a job has logged."""

    def test_the_newest_log_is_printed(self, both: Both) -> None:
        assert both("job", "logs", "3") == (0, "first\nsecond \\u001b[2J\n", "")
        assert both("job", "logs", "3", "--attempt", "2")[0] == 0

    def test_without_one_that_is_told(self, both: Both) -> None:
        assert both("job", "logs", "5") == (1, "", "riverui: Job 5 has no log.\n")
        assert both("job", "logs", "3", "--attempt", "1")[2].endswith("no log of attempt 1.\n")
        assert both("job", "logs", "77") == (1, "", "riverui: Job not found: 77.\n")

    def test_the_newest_log_that_exists_is_printed(self, both: Both, shop: str) -> None:
        execute(shop, "update river_job set attempt = 4 where id = 3")
        assert both("job", "logs", "3")[1].startswith("first\n")

    def test_it_is_followed_until_the_job_has_ended(
        self, run: Run, way: dict[str, str], shop: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = [
            "update river_job set attempt = 2, metadata ="
            ' \'{"river:log": [{"attempt": 1, "log": "a\\n"}, {"attempt": 2, "log": "b\\n"}]}\''
            " where id = 5",
            "update river_job set state = 'completed', finalized_at = now(), metadata ="
            ' \'{"river:log": [{"attempt": 1, "log": "a\\n"}, {"attempt": 2, "log": "b\\nc\\n"}]}\''
            " where id = 5",
        ]
        execute(
            shop,
            "update river_job set metadata ="
            ' \'{"river:log": [{"attempt": 1, "log": "a\\n"}]}\' where id = 5',
        )
        monkeypatch.setattr("riverui.cli.job.logs.time", stepwise(shop, steps))
        assert run("job", "logs", "5", "-f", **way) == (0, "a\nb\nc\n", "── attempt 2 ──\n")


class TestWait:
    """Until jobs have ended."""

    def test_each_outcome_has_its_exit_code(self, both: Both) -> None:
        assert both("job", "wait", "4") == (0, "Job 4 completed.\n", "")
        code, out, err = both("job", "wait", "3", "4", "77")
        assert (code, err) == (1, "riverui: Job not found: 77.\n")
        assert out == "Job 3 discarded.\nJob 4 completed.\n"
        _, out, _ = both("job", "wait", "4", "--json")
        assert json.loads(out)["state"] == "completed"

    def test_the_time_may_be_up_first(self, both: Both) -> None:
        code, out, err = both("job", "wait", "4", "1", "5", "--timeout", "0.01s")
        assert (code, out) == (124, "Job 4 completed.\n")
        assert err == "riverui: not ended in 0.01s: 1, 5\n"

    def test_it_ends_when_the_last_has_ended(
        self, run: Run, way: dict[str, str], shop: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = "update river_job set state = 'completed', finalized_at = now() where id = "
        steps = stepwise(shop, [f"{done} 5", f"{done} 1"])
        monkeypatch.setattr("riverui.cli.job.wait.time", steps)
        code, out, _ = run("job", "wait", "1", "5", "--timeout", "60s", **way)
        assert code == 0
        assert out.splitlines() == ["Job 5 completed.", "Job 1 completed."]

    def test_a_database_that_is_away_for_a_moment_is_asked_again(
        self, run: Run, way: dict[str, str], shop: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = [
            "alter table river_job rename to away",
            "alter table away rename to river_job",
            "update river_job set state = 'completed', finalized_at = now() where id = 5",
        ]
        monkeypatch.setattr("riverui.cli.job.wait.time", stepwise(shop, steps))
        assert run("job", "wait", "5", **way) == (0, "Job 5 completed.\n", "")

    def test_what_makes_no_sense(self, both: Both) -> None:
        for argv in (["x"], [], ["1", "--timeout", "soon"]):
            assert both("job", "wait", *argv)[0] == 2


def stepwise(url: str, statements: Sequence[str]) -> SimpleNamespace:
    """Return a clock that executes the next statement whenever somebody sleeps."""
    left = list(statements)

    def sleep(_seconds: float) -> None:
        execute(url, left.pop(0))

    return SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
