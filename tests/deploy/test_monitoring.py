"""A real Prometheus scrapes a dashboard and workers: what rules and Grafana ask for is there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.needs import need
from tests.ports import free_port
from tests.worker.conftest import wait_for

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GRAFANA = json.loads((DEPLOY / "grafana" / "riverui.json").read_text())


def rules() -> list[str]:
    """Return what the alerts ask."""
    read = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    return [rule["expr"] for group in read["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in GRAFANA["panels"] if panel["type"] != "row"]


def asked() -> list[str]:
    """Return what the panels of Grafana ask, with nothing chosen."""
    return [chosen(target["expr"]) for panel in panels() for target in panel["targets"]]


def chosen(text: str) -> str:
    """Return it as Grafana sends it where nothing is chosen."""
    for variable in GRAFANA["templating"]["list"][1:]:
        text = text.replace(f"${variable['name']}", variable["allValue"])
    return text.replace("$__rate_interval", "5m")


def metrics(expression: str) -> set[str]:
    """Return the metrics that an expression names, a histogram without the endings of its parts."""
    names = re.findall(r"\b(?:river|riverui)_[a-z_]+\b", expression)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


@contextlib.contextmanager
def started(*command: str | Path, cwd: Path, **environment: str) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def prometheus(database_url: str, tmp_path: Path) -> Iterator[httpx2.Client]:
    """Yield a Prometheus that has our rules and has scraped both."""
    need("Prometheus")
    dashboard, worker, own = free_port(), free_port(), free_port()
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    config["rule_files"] = [str(DEPLOY / "prometheus" / "rules.yaml")]
    for scraped, port in zip(config["scrape_configs"], (dashboard, worker), strict=True):
        scraped["scrape_interval"] = scraped["scrape_timeout"] = "2s"
        scraped["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        scraped.pop("authorization", None)
    file = tmp_path / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config | {"global": {"evaluation_interval": "2s"}}))
    river = [sys.executable, "-m", "riverui"]
    url = {"DATABASE_URL": database_url}
    with (
        started(*river, "serve", "--port", str(dashboard), "--no-auth", cwd=tmp_path, **url),
        started(
            *[*river, "worker", "jobs:client", "--processes", "2", "--metrics"],
            *["--health-port", str(worker)],
            cwd=ROOT / "examples" / "worker",
            **url,
        ),
        started(
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{own}",
            cwd=tmp_path,
        ),
        httpx2.Client(base_url=f"http://127.0.0.1:{own}/api/v1/", timeout=30) as client,
    ):
        wait_for(lambda: value(client, "sum(up) + sum(riverui_worker_up)") == 4, seconds=120)
        yield client


def value(client: httpx2.Client, expression: str) -> float | None:
    """Return what it says, None where it says nothing or does not answer yet."""
    try:
        found = answer(client, "query", query=expression)["result"]
    except httpx2.HTTPError:
        return None
    return float(found[0]["value"][1]) if found else None


def answer(client: httpx2.Client, address: str, **params: str) -> Any:
    # Until it has read what it keeps it answers 503.
    read = client.get(address, params=params).raise_for_status().json()
    assert read["status"] == "success", (params, read)
    return read["data"]


def test_what_rules_and_panels_ask_for_is_there(prometheus: httpx2.Client) -> None:
    known = set(answer(prometheus, "metadata"))
    expressions = rules() + asked()
    for expression in expressions:
        assert metrics(expression) <= known, expression
        answer(prometheus, "query", query=expression)
    assert value(prometheus, "max(riverui_database_up)") == 1
    used = set().union(*map(metrics, expressions))
    jobs, *others = (each["definition"] for each in GRAFANA["templating"]["list"][1:])
    assert metrics(jobs) == {"riverui_database_up", "riverui_worker_slots"}
    assert metrics(jobs).union(*map(metrics, others)) <= known
    selector = re.findall(r"label_values\((.*), job\)", jobs)
    told = answer(prometheus, "label/job/values", **{"match[]": selector[0]})
    assert set(told) == {"riverui", "riverui-workers"}, (
        "of both, so that one choice fits all panels"
    )
    assert {"river_leader", "riverui_worker_slots"} <= used

    def judged() -> bool:
        groups = answer(prometheus, "rules")["groups"]
        return all(rule["health"] == "ok" for group in groups for rule in group["rules"])

    wait_for(judged, seconds=60)


def test_panels_show_one_installation_and_all_of_the_time_that_is_looked_at() -> None:
    """As Grafana's own linter asks: whatever is chosen, and however long a time is."""
    for panel in panels():
        for target in panel["targets"]:
            asked = target["expr"]
            assert len(re.findall(r"\briver(?:ui)?_\w+\{job=~\"\$job\"", asked)) == len(
                re.findall(r"\briver(?:ui)?_\w+", asked)
            )
            assert not re.search(r"rate\([^\[]*\[\d", asked), "gaps where a step is longer"
            if re.search(r"\brate\(river_", asked):
                assert target["interval"] == "1m", "the dashboard counts what ended once a minute"


def test_the_panels_fill_the_page_and_none_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in GRAFANA["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in GRAFANA["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in panels():
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
