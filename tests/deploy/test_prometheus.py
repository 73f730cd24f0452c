"""The rules for Prometheus fire when they should, on its own engine, and name what is there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.needs import need

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"

Fired: TypeAlias = dict[str, dict[str, str]]

_WELL = {
    'riverui_info{version="0"}': "1x320",
    'riverui_database_up{job="riverui"}': "1x320",
    'river_leader{job="riverui"}': "1x320",
    'riverui_standby_used{job="riverui"}': "1x320",
    'riverui_standby_lag_seconds{job="riverui"}': "0.2x320",
    'riverui_worker_slots{queue="mail", process="1"}': "10x320",
    'riverui_worker_running_jobs{queue="mail", process="1"}': "3x320",
    'riverui_worker_loop_lag_seconds_bucket{instance="w", le="0.1"}': "0+300x320",
    'riverui_worker_loop_lag_seconds_bucket{instance="w", le="5"}': "0+300x320",
    'riverui_worker_loop_lag_seconds_bucket{instance="w", le="+Inf"}': "0+300x320",
    'riverui_worker_restarts_total{process="1", reason="ended"}': "0x320",
    'riverui_worker_restarts_total{process="1", reason="jobs"}': "0+5x320",
    'river_queue_jobs{queue="mail", state="available"}': "5x320",
    'river_queue_oldest_waiting_seconds{queue="mail"}': "2x320",
    'river_queue_paused{queue="mail"}': "0x320",
    'river_jobs_ended_total{queue="mail", kind="send", state="completed"}': "0+300x320",
    'river_jobs_ended_total{queue="mail", kind="send", state="discarded"}': "0x320",
    'river_attempts_failed_total{queue="mail", kind="send"}': "0+5x320",
    'river_job_run_seconds_count{queue="mail", kind="send"}': "0+300x320",
    'river_job_run_seconds_bucket{queue="mail", kind="send", le="1"}': "0+300x320",
    'river_job_run_seconds_bucket{queue="mail", kind="send", le="60"}': "0+300x320",
    'river_job_run_seconds_bucket{queue="mail", kind="send", le="+Inf"}': "0+300x320",
    'riverui_database_seconds_bucket{job="riverui", le="0.1"}': "0+300x320",
    'riverui_database_seconds_bucket{job="riverui", le="5"}': "0+300x320",
    'riverui_database_seconds_bucket{job="riverui", le="+Inf"}': "0+300x320",
}
"""A day and a bit of a system in which all is well, in steps of five minutes: `5x3` is four times
5, `0+2x3` is 0, 2, 4, 6.
"""

_MAIL = {"queue": "mail"}
_SEND = {"queue": "mail", "kind": "send"}
_ILL: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "RiverDatabaseAway": (
        {'riverui_database_up{job="riverui"}': "1x300 0x20"},
        {"job": "riverui"},
    ),
    "RiverDashboardGone": ({'riverui_info{version="0"}': "1x300 _x20"}, {}),
    "RiverNoLeader": ({'river_leader{job="riverui"}': "1x300 0x20"}, {"job": "riverui"}),
    "RiverQueueStuck": (
        {
            'river_queue_oldest_waiting_seconds{queue="mail"}': "2x300 0+300x20",
            'river_jobs_ended_total{queue="mail", kind="send", state="completed"}': (
                "0+300x300 90000x20"
            ),
        },
        _MAIL,
    ),
    "RiverJobsLate": (
        {'river_queue_oldest_waiting_seconds{queue="mail"}': "2x300 0+300x20"},
        _MAIL,
    ),
    "RiverQueueGrows": (
        {'river_queue_jobs{queue="mail", state="available"}': "5x300 900+300x20"},
        _MAIL,
    ),
    "RiverQueueLeftPaused": ({'river_queue_paused{queue="mail"}': "0x300 1x20"}, _MAIL),
    "RiverJobsDiscarded": (
        {'river_jobs_ended_total{queue="mail", kind="send", state="discarded"}': ("0x300 0+5x20")},
        _SEND,
    ),
    "RiverAttemptsFail": (
        {'river_attempts_failed_total{queue="mail", kind="send"}': "0+5x300 1500+150x20"},
        _SEND,
    ),
    "RiverJobsSlow": (
        {'river_job_run_seconds_bucket{queue="mail", kind="send", le="1"}': ("0+300x300 90000x20")},
        _SEND,
    ),
    "RiverDatabaseSlow": (
        {'riverui_database_seconds_bucket{job="riverui", le="0.1"}': "0+300x300 90000x20"},
        {"job": "riverui"},
    ),
    "RiverStandbyLate": (
        {'riverui_standby_lag_seconds{job="riverui"}': "0.2x300 0+300x20"},
        {"job": "riverui"},
    ),
    "RiverStandbyUnused": (
        {'riverui_standby_used{job="riverui"}': "1x300 0x20"},
        {"job": "riverui"},
    ),
    "RiverWorkersGone": (
        {'riverui_worker_slots{queue="mail", process="1"}': "10x300 _x20"},
        {},
    ),
    "RiverWorkerSlotsTaken": (
        {'riverui_worker_running_jobs{queue="mail", process="1"}': "3x300 10x20"},
        _MAIL,
    ),
    "RiverWorkerLoopBlocked": (
        {'riverui_worker_loop_lag_seconds_bucket{instance="w", le="0.1"}': ("0+300x300 90000x20")},
        {"instance": "w"},
    ),
    "RiverWorkerRestarts": (
        {'riverui_worker_restarts_total{process="1", reason="ended"}': "0x300 0+5x20"},
        {},
    ),
}
"""What has to change of that for each alert, from step 300 on (`_` means no sample), and the labels
that it fires with.
"""


def rules() -> list[dict[str, Any]]:
    read = yaml.safe_load(RULES.read_text())
    return [rule for group in read["groups"] for rule in group["rules"]]


def fired(tries: Sequence[tuple[dict[str, str], int]], folder: Path) -> list[Fired]:
    """Return for each try, which is series and a step, which alerts fire then, by name, with their
    labels but for the severity.
    """
    cases = folder / "cases.yaml"
    wrong = {"labels": '{never="there"}', "value": 1}  # so that it tells what it got
    tests = [
        {
            "interval": "5m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": 'ALERTS{alertstate="firing"}',
                    "eval_time": f"{5 * step}m",
                    "exp_samples": [wrong],
                }
            ],
        }
        for series, step in tries
    ]
    cases.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15m", "tests": tests})
    )
    done = subprocess.run(
        [need("Prometheus"), "test", "rules", cases], capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    got = re.findall(r"(?m)^ *got: ?(.*)$", told)
    assert len(got) == len(tries), told
    return [dict(map(alert, re.findall(r"\{([^}]*)\}", line))) for line in got]


def alert(labels: str) -> tuple[str, dict[str, str]]:
    read = dict(re.findall(r'(\w+)="(.*?)"', labels))
    for given in ("__name__", "alertstate", "severity"):
        del read[given]
    return read.pop("alertname"), read


def test_promtool_finds_nothing() -> None:
    for kind, file in (("rules", RULES), ("config", RULES.with_name("prometheus.yaml"))):
        done = subprocess.run(
            [
                need("Prometheus"),
                "check",
                kind,
                *(["--syntax-only"] if kind == "config" else []),
                file,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_for_its_cause_alone(
    tmp_path: Path,
) -> None:
    tries = [(_WELL, 319), *((_WELL | changes, 319) for changes, _ in _ILL.values())]
    quiet, *found = fired(tries, tmp_path)
    assert quiet == {}
    for (name, (changes, labels)), alerts in zip(_ILL.items(), found, strict=True):
        assert set(changes) <= set(_WELL)
        assert alerts.get(name) == labels, (name, alerts)


def test_every_alert_is_tried_and_told() -> None:
    told = (ROOT / "docs/operate/alerts.md").read_text()
    for rule in rules():
        assert rule["alert"] in _ILL
        assert f"| `{rule['alert']}` |" in told
        assert {"summary"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
