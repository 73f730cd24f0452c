"""`riverui job retry` and `cancel`, on the database and on the API."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable

import click
import pytest

from riverui.actions.job_verbs import JOB_VERBS
from riverui.cli.job.verbs import VERB_COMMANDS
from tests.cases import cases
from tests.cli.conftest import Ways, execute
from tests.test_cli import Run

Rows = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture(params=["database", "api"])
def way(request: pytest.FixtureRequest, shop: str) -> dict[str, str]:
    """Return the environment of one way to ask; what changes things is tried on each alone."""
    if request.param == "database":
        return {"DATABASE_URL": shop}
    ways: Ways = request.getfixturevalue("ways")
    return dict(ways.api)


class TestByIds:
    """Jobs that are named."""

    def test_jobs_are_retried_or_reported(self, run: Run, way: dict[str, str], rows: Rows) -> None:
        code, out, err = run("job", "retry", "3", "4", "1", "77", "3", **way)
        assert (code, err) == (1, "")
        assert out.splitlines() == [
            "2 jobs will run again now.",
            "1 skipped, already available: #1.",
            "1 skipped, not found: #77.",
        ]
        assert rows("select id from river_job where state = 'available' order by id") == [
            (1,),
            (2,),
            (3,),
            (4,),
        ]

    def test_what_is_done_already_is_no_failure(self, run: Run, way: dict[str, str]) -> None:
        assert run("job", "cancel", "4", **way)[:2] == (
            0,
            "No job was cancelled.\n1 skipped, already finished: #4.\n",
        )

    def test_running_jobs_are_asked_to_stop(
        self, run: Run, way: dict[str, str], rows: Rows
    ) -> None:
        assert run("job", "cancel", "1", "5", **way) == (
            0,
            "1 job cancelled, 1 running job asked to stop.\n",
            "",
        )
        assert rows("select state::text from river_job where id in (1, 5) order by id") == [
            ("cancelled",),
            ("running",),
        ]
        assert rows("select metadata ? 'cancel_attempted_at' from river_job where id = 5") == [
            (True,)
        ]

    def test_a_program_gets_what_became_of_each(self, run: Run, way: dict[str, str]) -> None:
        code, out, _ = run("job", "cancel", "1", "5", "77", "--json", **way)
        assert code == 1
        assert json.loads(out) == {
            "changed": [1],
            "requested": [5],
            "skipped": [{"id": 77, "reason": "not_found"}],
        }

    def test_ids_come_from_standard_input_in_chunks(
        self, run: Run, way: dict[str, str], shop: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        execute(
            shop,
            "insert into river_job (id, kind, args)"
            " select n, 'many', '{}' from generate_series(1000, 3499) n",
        )
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(str, range(1000, 3500)))))
        assert run("job", "cancel", "-", **way)[:2] == (0, "2,500 jobs cancelled.\n")
        assert rows("select count(*) from river_job where state = 'cancelled'") == [(2500,)]


class TestMoveAndDelete:
    """The verbs that ask, or take more than jobs."""

    def test_jobs_are_moved(self, run: Run, way: dict[str, str], rows: Rows) -> None:
        asked = ["job", "move", "1", "5", "--queue", "slow", "--priority", "2"]
        assert run(*asked, **way) == (
            1,
            "1 job moved to queue slow, priority 2.\n1 skipped, still running: #5.\n",
            "",
        )
        assert rows("select queue, priority from river_job where id = 1") == [("slow", 2)]
        for wrong in ([], ["--priority", "5"], ["--queue", "No Queue"]):
            code, out, err = run("job", "move", "1", *wrong, **way)
            assert (code, out) == (2, "")
            assert err.count("\n") == 1

    def test_what_is_deleted_is_asked_about(
        self, run: Run, way: dict[str, str], rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code, _, err = run("job", "delete", "1", "2", **way)
        assert code == 2
        assert "Delete 2 jobs? Nobody is here to answer" in err
        asking = io.StringIO("n\n")
        asking.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr("sys.stdin", asking)
        assert run("job", "delete", "1", "2", **way)[0] == 1
        monkeypatch.setattr("sys.stdin", io.StringIO("1 2"))
        code, _, err = run("job", "delete", "-", **way)
        assert code == 2
        assert "--yes says to delete them" in err
        assert len(rows("select id from river_job")) == 5
        assert run("job", "delete", "-", "3", "5", "--yes", **way) == (
            1,
            "3 jobs deleted.\n1 skipped, still running: #5.\n",
            "",
        )
        assert rows("select id from river_job order by id") == [(4,), (5,)]


class TestBySearch:
    """All that match, by an operation that goes in steps."""

    def test_completed_jobs_need_their_state(
        self, run: Run, way: dict[str, str], rows: Rows
    ) -> None:
        again = (0, "1 job will run again now.\n", "")
        asked = ["job", "retry", "--search", "kind:charge"]
        assert "Retry 1 discarded job matching kind:charge?" in run(*asked, **way)[2]
        both = run("job", "retry", "--state", "completed,discarded", **way)[2]
        assert "Retry 2 jobs (1 completed, 1 discarded) matching state:completed,disc" in both
        assert run(*asked, "--yes", **way) == again
        left = "select id from river_job where state = 'completed'"
        assert rows(left) == [(4,)]
        assert run("job", "retry", "--state", "completed", "--yes", **way) == again
        assert rows(left) == []

    def test_nothing_is_done_before_somebody_agrees(
        self, run: Run, way: dict[str, str], rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code, out, err = run("job", "cancel", "--search", "queue:mail", **way)
        assert (code, out) == (2, "")
        assert "Cancel 2 available jobs matching queue:mail? Nobody is here to answer: --yes" in err
        for answer, ends in (("n\n", 1), ("y\n", 0)):
            asking = io.StringIO(answer)
            asking.isatty = lambda: True  # type: ignore[method-assign]
            monkeypatch.setattr("sys.stdin", asking)
            code, out, err = run("job", "cancel", "--search", "queue:mail", **way)
            assert code == ends
            assert ("riverui: Nothing was changed." in err) is (ends == 1)
            assert "Cancel 2 available jobs matching queue:mail?" in err
            done = 2 if answer == "y\n" else 0
            assert rows("select count(*) from river_job where state = 'cancelled'") == [(done,)]

    def test_options_of_the_list_select(self, run: Run, way: dict[str, str], rows: Rows) -> None:
        asked = ["job", "cancel", "--queue", "mail", "--kind", "mail_*,report", "--yes"]
        assert run(*asked, **way)[:2] == (0, "2 jobs cancelled.\n")
        # The queue of `move` is where the jobs go.
        move = ["job", "move", "--kind", "mail_send", "--queue", "slow", "--yes"]
        assert run(*move, **way)[1] == "No job matches that could be moved.\n"
        assert run("job", "move", "--queue", "slow", **way)[0] == 2

    def test_every_job_is_told_as_that(self, run: Run, way: dict[str, str]) -> None:
        _, _, err = run("job", "cancel", "--search", "", **way)
        assert "Cancel 3 jobs (2 available, 1 running) in all?" in err

    def test_only_states_that_fit_are_counted(self, run: Run, way: dict[str, str]) -> None:
        # A job of this kind is running: it cannot be retried.
        assert run("job", "retry", "--search", "kind:report", **way) == (
            0,
            "No job matches that could be retried.\n",
            "",
        )

    def test_ctrl_c_stops_it(
        self, run: Run, way: dict[str, str], shop: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        execute(
            shop,
            "insert into river_job (kind, args) select 'many', '{}' from generate_series(1, 10000)",
        )

        class Clock:
            """Is interrupted by the first one who sleeps."""

            pressed = False

            def sleep(self, seconds: float) -> None:
                if not self.pressed:
                    self.pressed = True
                    raise KeyboardInterrupt
                time.sleep(seconds)

        monkeypatch.setattr("riverui.cli.job.verbs.time", Clock())
        code, out, err = run("job", "cancel", "--search", "kind:many", "--yes", **way)
        assert code == 1
        assert err == "riverui: it was stopped before it was through\n"
        [(cancelled,)] = rows("select count(*) from river_job where state = 'cancelled'")
        assert isinstance(cancelled, int)
        assert cancelled < 10_000
        assert out.startswith(f"{cancelled:,} job" if cancelled else "No job")

    def test_a_program_gets_the_operation(self, run: Run, way: dict[str, str]) -> None:
        code, out, _ = run("job", "cancel", "--search", "queue:mail", "--yes", "--json", **way)
        told = json.loads(out)["operation"]
        assert code == 0
        assert (told["verb"], told["status"], told["changed"]) == ("cancel", "done", 2)

    def test_with_rivers_own_table_of_operations_it_is_the_same(
        self, own_tables: None, run: Run, way: dict[str, str], rows: Rows
    ) -> None:
        asked = ["job", "cancel", "--search", "queue:mail", "--yes"]
        assert run(*asked, **way)[:2] == (0, "2 jobs cancelled.\n")
        assert rows("select verb, changed from riverui_operation") == [("cancel", 2)]

    def test_invalid_arguments_exit_with_2(self, run: Run, way: dict[str, str]) -> None:
        with cases() as case:
            for argv, words in (
                ([], "say which jobs to retry"),
                (["3", "--search", "x"], "say which jobs to retry"),
                (["--search", "nope:1", "--yes"], "not a search term"),
                (["--search", "kind=charge", "--yes"], "did you mean kind:charge?"),
                (["three"], "not a job id"),
            ):
                with case(argv):
                    code, out, err = run("job", "retry", *argv, **way)
                    assert (code, out) == (2, "")
                    assert err.count("\n") == 1
                    assert words in err


def test_a_command_takes_what_its_verb_takes() -> None:
    assert {command.name for command in VERB_COMMANDS} == set(JOB_VERBS)
    for command in VERB_COMMANDS:
        assert command.name is not None
        flags = {each.name for each in command.params if isinstance(each, click.Option)}
        besides = {"search", "states", "kinds", "yes", "as_json", "database_url", "schema", "api"}
        if command.name != "move":
            besides.add("queues")
        assert besides <= flags
        taken = {parameter.name for parameter in JOB_VERBS[command.name].parameters}
        assert flags - besides == taken
