"""docs/dashboard/command-line.md: its examples are run, one after the other, and answer what
they show.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from riverui.cli.terminal import Screen
from riverui.cli.top.lines import all_lines
from tests.cli.test_top import JOB, QUEUE
from tests.test_cli import Run, run

__all__ = ["run"]

PAGE = Path(__file__).parents[2] / "docs/dashboard/command-line.md"
JOBS = """
insert into river_queue (name, created_at, updated_at) values
  ('default', now(), now() - interval '20 s'), ('mail', now(), now() - interval '20 s');
insert into river_job (id, kind, args, queue, scheduled_at) values
  (1, 'mail_send', '{"to": 1}', 'mail', now() - interval '30 s'),
  (2, 'mail_send', '{"to": 2}', 'mail', now() - interval '20 s');
insert into river_job (id, kind, args, state, attempt, max_attempts, attempted_at, attempted_by,
  finalized_at, errors) values
  (3, 'charge_card', '{"order": 40}', 'discarded', 3, 3, now(), '{web-1}',
    now() - interval '50 s', array['{"at": "2026-11-21T09:00:00Z", "attempt": 3,
      "error": "TimeoutError: no answer from upstream", "trace": ""}']::jsonb[]),
  (4, 'charge_card', '{"order": 41}', 'completed', 1, 3, now(), '{web-1}',
    now() - interval '40 s', '{}');
insert into river_job (id, kind, args, state, attempt, max_attempts, attempted_at, attempted_by)
  values (5, 'report', '{}', 'running', 1, 25, now() - interval '1 minute', '{web-1}');
select setval('river_job_id_seq', 100);
"""


def examples() -> Iterator[tuple[str, str]]:
    """Yield each command of the page with what it is shown to answer."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, answer = example.partition("\n")
            yield command, answer


def without_times(text: str) -> str:
    """Return a text without what differs from one moment to the next."""
    told = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)", "<time>", text)
    told = re.sub(r"\d+ (s|[mhd] \d+ [smh]) ago", "<ago>", told)
    return "\n".join(" ".join(line.split()) for line in told.splitlines())


def test_every_example_answers_what_it_shows(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(JOBS)
    tried = code = 0
    for command, shown in examples():
        out, err = "", ""
        command, _, after = command.partition(" && echo ")
        for part in command.split(" | "):
            words = shlex.split(part)
            if words[0] == "jq":
                assert words == ["jq", ".id"]
                out = "".join(f"{found}\n" for found in re.findall(r'^\{"id":(\d+)', out, re.M))
                continue
            assert words[0] == "riverui", command
            monkeypatch.setattr("sys.stdin", io.StringIO(out))
            code, out, err = run(*words[1:], DATABASE_URL=database_url)
        if after and code == 0:
            out += f"{shlex.split(after)[0]}\n"
        assert without_times(out + err) == without_times(shown), command
        tried += 1
    assert tried > 15


def test_troubleshooting_quotes_the_missing_database(run: Run, database_url: str) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    url = database_url.replace(f"/{name}", "/nowhere")
    told = run("job", "list", DATABASE_URL=url)[2].removeprefix("riverui: ").strip()
    page = (PAGE.parents[1] / "operate/troubleshooting.md").read_text()
    assert f"| `{told.replace('nowhere', '…')}` |" in page


def test_top_prints_what_is_shown() -> None:
    waits = {"available": 59, "running": 0, "retryable": 0, "ended_per_minute": 0.0}
    verdicts = (
        ("critical", "Nobody works queue mail.", "59 jobs wait, the oldest for 32 m 48 s."),
        ("ok", "Work is succeeding.", "1 % of 1,204 attempts failed in the last 15 min."),
        ("ok", "These figures are fresh:", "1.3 s old, from the rows of jobs."),
    )
    states = {"available": 68, "running": 1, "scheduled": 0, "retryable": 0, "pending": 0}
    states |= {"completed": 1_190, "cancelled": 0, "discarded": 30}
    failed = {"id": 74, "kind": "charge_card", "state": "discarded", "attempt": 3}
    failed |= {"max_attempts": 3, "attempted_at": "2026-11-21T08:59:49Z"}
    overview = {
        "at": "2026-11-21T09:00:00Z",
        "health": {
            "sections": [
                {"level": level, "label": label, "headline": words}
                for level, label, words in verdicts
            ]
        },
        "states": [
            {"state": state, "count": count, "precision": "exact"}
            for state, count in states.items()
        ],
        "queues": [
            {
                **QUEUE,
                "name": "default",
                "available": 9,
                "retryable": 0,
                "oldest_waiting_at": "2026-11-21T08:59:48Z",
            },
            {**QUEUE, **waits, "oldest_waiting_at": "2026-11-21T08:27:12Z"},
        ],
        "queue_cap": 1_000,
        "running": [{**JOB, "id": 68, "kind": "report", "queue": "default"}],
        "failures": [
            {**JOB, **failed, "queue": "default", "error": "TimeoutError: upstream did not answer"}
        ],
        "missing": "",
    }
    shown = "\n".join(all_lines(overview, "jobs.example", Screen(width=80)))
    assert f"```\n{shown}\n```" in PAGE.read_text(), f"write this:\n{shown}"
