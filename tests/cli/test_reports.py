"""`riverui health` and `riverui explain`, on the database and on the API; what they tell is tested
beside the checks.
"""

from __future__ import annotations

import json

from tests.cli.conftest import Ways
from tests.test_cli import Run


def test_why_a_job_waits_is_told_by_a_dashboard_as_well(run: Run, ways: Ways) -> None:
    for environ in ways.both():
        code, out, err = run("explain", "1", **environ)
        assert (code, err) == (0, "")
        assert out.startswith("Job 1 (available): ")
        _, out, _ = run("explain", "1", "--json", **environ)
        assert (json.loads(out)["id"], json.loads(out)["blocked"]) == (1, False)
        assert run("explain", "99", **environ) == (2, "", "riverui: job not found: 99\n")


def test_a_dashboard_tells_whether_the_jobs_are_well(run: Run, ways: Ways) -> None:
    for environ in ways.both():
        code, out, _ = run("health", "--json", **environ)
        report = json.loads(out)
        assert [section["name"] for section in report["sections"]] == ["flow", "success", "data"]
        assert code == {"ok": 0, "warn": 1, "unknown": 1, "critical": 2}[report["level"]]
        code, out, err = run("health", **environ)
        assert err == ""
        assert all(section["checks"][0]["label"] in out for section in report["sections"])


def test_a_dashboard_that_does_not_answer_is_no_health(run: Run) -> None:
    code, out, err = run("health", "--api", "http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
