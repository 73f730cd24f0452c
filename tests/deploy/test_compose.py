"""The compose file for production: as Docker Compose reads it, and as riverui is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from riverui.cli.main import riverui
from riverui.cli.settings import SETTINGS
from riverui.cli.worker.settings import WORKER_SETTINGS
from tests.test_container import resolved

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "compose" / "compose.yaml"
GIVEN = {
    "PGHOST": "db.test",
    "RIVERUI_IMAGE": f"ghcr.io/riverui/riverui@sha256:{'0' * 64}",
    "WORKER_IMAGE": f"registry.test/shop@sha256:{'1' * 64}",
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    shutil.copy(FILE, tmp_path)
    return resolved(tmp_path / "compose.yaml")


@pytest.mark.parametrize("missing", GIVEN)
def test_what_has_to_be_named_is_asked_for(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    shutil.copy(FILE, tmp_path)
    with pytest.raises(AssertionError, match=f"{missing}.*name"):
        resolved(tmp_path / "compose.yaml")


def test_every_container_is_shut_in_and_holds_no_secret(file: dict[str, Any]) -> None:
    services = file["services"]
    assert set(services) == {"migrate", "dashboard", "worker"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "10001:10001"
        assert "@sha256:" in service["image"]
        assert not [
            name
            for name in service["environment"]
            if re.search("PASSWORD$|_PASS$|_URL$|KEY$", name)
        ]
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1"
        mounted = {secret["target"] for secret in service["secrets"]}
        files = {value for value in service["environment"].values() if "/run/" in value}
        assert files == mounted


def test_what_it_says_is_true_of_riverui(file: dict[str, Any]) -> None:
    ours = {name for setting in (*SETTINGS, *WORKER_SETTINGS) for name in setting.env_names}
    for service in file["services"].values():
        for name in service["environment"]:
            assert name.startswith("PG") or name in ours
        command, *flags = service.get("command") or ["serve"]
        known = {
            option for parameter in riverui.commands[command].params for option in parameter.opts
        }
        assert {flag for flag in flags if flag.startswith("--")} <= known
    worker = file["services"]["worker"]
    assert worker["environment"]["PORT"] == worker["environment"]["RIVERUI_HEALTH_PORT"]
    assert worker["healthcheck"]["test"][1:] == ["riverui", "healthcheck", "complete"]
    assert worker["stop_grace_period"] == "35s"


def test_the_pages_files_are_the_ones_it_asks_for() -> None:
    told = (ROOT / "docs/operate/compose.md").read_text()
    read = yaml.safe_load(FILE.read_text())
    for secret in read["secrets"].values():
        assert secret["file"].removeprefix("./") in told
