"""`riverui job list` and `riverui job get`, on the database and on the API."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.cases import cases
from tests.cli.conftest import Both, execute
from tests.test_cli import Run


class TestList:
    """Which jobs, in which order, as which lines."""

    def test_jobs_of_every_state_stand_in_a_table_newest_first(self, both: Both) -> None:
        code, out, err = both("job", "list")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0].split() == ["ID", "STATE", "KIND", "QUEUE", "ATTEMPT", "WHEN", "ARGS"]
        assert [line.split()[0] for line in lines[1:]] == ["5", "4", "3", "2", "1"]
        assert lines[3].split()[:5] == ["3", "discarded", "charge", "default", "2/2"]
        assert lines[3].endswith('{"amount": 12.50000000000000000001}')
        # Every column begins at the same place.
        assert {line.index("{") for line in lines[1:]} == {lines[0].index("ARGS")}

    def test_nothing_of_a_job_reaches_the_terminal_as_it_is(self, both: Both) -> None:
        for argv in (["job", "list"], ["job", "get", "1"], ["job", "get", "3"]):
            _, out, _ = both(*argv)
            assert "\x1b" not in out
            assert "u001b" in out

    def test_a_search_is_read_as_in_the_box(self, both: Both) -> None:
        with cases() as case:
            for argv, ids in (
                (["kind:charge"], [4, 3]),
                (["kind:charge state:discarded error:timeout"], [3]),
                (["kind:charge", "state:discarded"], [3]),
                (["--state", "running", "--state", "available"], [5, 2, 1]),
                (["--state", "running,available"], [5, 2, 1]),
                (["--queue", "mail"], [2, 1]),
                (["--queue", "ma*", "tag:vip"], [1]),
                (["--kind", "charge", "--kind", "report"], [5, 4, 3]),
                (["--kind", "no such: kind"], []),
                (["--order", "id"], [1, 2, 3, 4, 5]),
                (["--limit", "2"], [5, 4]),
                (["--limit", "2", "--order", "id"], [1, 2]),
                (["--all", "--limit", "1"], [5, 4, 3, 2, 1]),
                (["--", "-kind:charge"], [5, 2, 1]),
                (["args.to:2"], [2]),
            ):
                with case(argv):
                    json_first = ["job", "list", "--json", *argv]
                    code, out, err = both(*json_first)
                    assert (code, err) == (0, "")
                    assert {json.loads(line)["id"] for line in out.splitlines()} == set(ids)
                    if "--order" in argv or len(argv) < 2 or "--limit" in argv:
                        assert [json.loads(line)["id"] for line in out.splitlines()] in (
                            ids,
                            ids[::-1],
                        )

    def test_a_program_gets_one_object_of_the_api_a_line(self, both: Both) -> None:
        _, out, _ = both("job", "list", "--json", "id:3")
        told = json.loads(out)
        assert '"args":{"amount": 12.50000000000000000001},' in out
        assert set(told) >= {"attempted_by", "created_at", "kind", "max_attempts", "state", "tags"}

    def test_more_than_a_page_are_read_one_after_the_other(self, both: Both, shop: str) -> None:
        execute(
            shop,
            "insert into river_job (kind, args) select 'many', '{}' from generate_series(1, 250)",
        )
        _, out, _ = both("job", "list", "--all", "kind:many", "--order", "id")
        lines = out.splitlines()
        assert len(lines) == 251
        ids = [int(line.split()[0]) for line in lines[1:]]
        assert ids == sorted(set(ids))
        _, out, _ = both("job", "list", "--limit", "130", "--json")
        assert len(out.splitlines()) == 130

    def test_where_nothing_matches_that_is_told_beside_the_output(self, both: Both) -> None:
        assert both("job", "list", "kind:none") == (0, "", "No job matches.\n")

    def test_what_makes_no_sense_is_one_line_and_exit_code_2(self, both: Both) -> None:
        with cases() as case:
            for argv, words in (
                (["kind:"], "not valid"),
                (["nonsense:1"], "not a search term"),
                (["--state", "happy"], "happy"),
                (["--limit", "0"], "--limit"),
                (["--order", "best"], "--order"),
            ):
                with case(argv):
                    code, out, err = both("job", "list", *argv)
                    assert (code, out) == (2, "")
                    assert err.startswith("riverui: ")
                    assert err.count("\n") == 1
                    assert words in err

    def test_a_narrow_terminal_gets_narrow_lines(self, run: Run, shop: str) -> None:
        execute(
            shop,
            "insert into river_job (id, kind, args, queue) values"
            " (9, 'a_very_long_kind_of_job_that_goes_on_and_on', '{\"a\": \"漢字漢字漢字\"}',"
            " 'a-queue-with-quite-a-name')",
        )
        for width in (90, 72):
            _, out, _ = run("job", "list", DATABASE_URL=shop, COLUMNS=str(width))
            lines = out.splitlines()
            # Each of these letters takes two columns.
            wide = [len(line) + line.count("漢") + line.count("字") for line in lines]
            assert max(wide) <= width
            assert max(wide) > width - 5
            assert "…" in out


def test_what_steers_a_terminal_is_escaped_everywhere(both: Both, shop: str) -> None:
    """Also the controls that JSON does not have to escape."""
    execute(
        shop,
        "insert into river_job (id, kind, args, tags) values"
        " (9, E'mail\u009b2J', E'{\"a\": \"\u202egnp.exe \u007f\"}', array[E'\u009d0;x'])",
    )
    with cases() as case:
        for argv in (["list"], ["list", "--json"], ["get", "9"], ["get", "9", "--json"]):
            with case(argv):
                _, out, _ = both("job", *argv)
                assert not set("\x1b\x7f\x9b\x9d\u202e") & set(out)
                assert "\\u009b2J" in out
                if "--json" in argv:
                    told = json.loads(out.splitlines()[0])
                    assert (told["kind"], told["tags"]) == ("mail\x9b2J", ["\x9d0;x"])
                    assert told["args"] == {"a": "\u202egnp.exe \x7f"}


class TestGet:
    """One job."""

    def test_what_the_page_tells_is_told_in_brief(self, both: Both) -> None:
        code, out, err = both("job", "get", "3")
        assert (code, err) == (0, "")
        for words in (
            "Job 3  discarded",
            "kind     charge",
            "attempt  2 of 2",
            "worker   me",
            '    "amount": 12.50000000000000000001',
            '    "trace_id": 12345678901234567890123',
            'Output\n  {\n    "ok": false',
            "riverui job logs 3",
            "Attempt 2 failed  2026-11-21 09:10:00 UTC",
            "  timeout \\u001b[31m",
            "    boom()",
        ):
            assert words in out, words
        assert out.index("Attempt 2 failed") < out.index("Attempt 1 failed")
        assert "river:log" not in out

    def test_it_says_why_a_job_waits(self, both: Both, shop: str) -> None:
        execute(
            shop, "update river_queue set paused_at = now() - interval '1 day' where name = 'mail'"
        )
        _, out, _ = both("job", "get", "1")
        assert "why      Its queue has been paused" in out
        _, out, _ = both("job", "get", "5")
        assert "why " not in out

    def test_an_error_of_several_lines_keeps_the_first_of_them(self, both: Both, shop: str) -> None:
        told = "no url\nNot tried again: " + "\n".join("more" for _ in range(1000))
        error = json.dumps({"at": "2026-11-21T09:10:00Z", "attempt": 1, "error": told, "trace": ""})
        execute(shop, "update river_job set errors = array[%s::jsonb] where id = 3", error)
        lines = both("job", "get", "3")[1].split("Attempt 1 failed")[1].splitlines()[1:]
        assert lines[:2] == ["  no url", "  Not tried again: more"]
        assert len(lines) == 4
        assert len(lines[3]) <= 502

    def test_a_cancelled_attempt_did_not_fail(self, both: Both, shop: str) -> None:
        told = "JobCancelError: job cancelled remotely"
        error = json.dumps({"at": "2026-11-21T09:10:00Z", "attempt": 1, "error": told, "trace": ""})
        execute(shop, "update river_job set errors = array[%s::jsonb] where id = 3", error)
        assert "Attempt 1 was cancelled  2026" in both("job", "get", "3")[1]

    def test_a_program_gets_the_api_s_answer(self, both: Both) -> None:
        code, out, _ = both("job", "get", "--json", "3")
        assert code == 0
        told = json.loads(out)
        assert (told["id"], len(told["errors"])) == (3, 2)
        assert "12345678901234567890123" in out

    def test_what_is_no_job(self, both: Both) -> None:
        assert both("job", "get", "77") == (1, "", "riverui: Job not found: 77.\n")
        for text in ("x", "-1", "9" * 30, "1.5"):
            code, out, err = both("job", "get", "--", text)
            assert (code, out) == (2, "")
            assert "not a job id" in err


def test_what_asks_a_database_without_tables_says_so_once(empty_database_url: str) -> None:
    """In a process of its own: pytest's handlers would keep what is logged off stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "riverui", "job", "list"],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "DATABASE_URL": empty_database_url},
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "riverui: There are no River tables here: run `riverui migrate-up`."
        " If they live in a schema of their own, set RIVER_SCHEMA.\n"
    )
