"""The Helm chart as `helm` renders it, and what each of its manifests is checked by."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.deploy.custom_resources import SCHEMAS
from tests.needs import need

CHART = Path(__file__).parents[2] / "deploy/helm/riverui"
CASES = sorted(path.stem.removesuffix("-values") for path in (CHART / "ci").glob("*.yaml"))
"""What the values files in the chart's folder `ci` are for, one each."""
OLDEST_KUBERNETES = "1.27.0"
"""The oldest that the chart says it is for."""

Manifest: TypeAlias = dict[str, Any]


@cache
def newest_kubernetes() -> str:
    """Return the newest version whose schemas are here."""
    # Loaded here and below, as it takes seconds.
    import kubernetes_validate

    found: str = kubernetes_validate.latest_version()
    return found


class Refused(Exception):
    """Helm did not take the values; its words."""


def values_file(case: str) -> Path:
    return CHART / "ci" / f"{case}-values.yaml"


def helm(*words: str | Path) -> str:
    """Return what the command prints; raise Refused where it fails."""
    done = subprocess.run(
        [need("helm"), *map(str, words)], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


@cache
def rendered(case: str = "minimal", *sets: str, file: Path | None = None) -> Sequence[Manifest]:
    """Return the manifests for a values file, with values as `--set-json` takes them, or another
    file, on top.
    """
    words: list[str | Path] = ["template", "shop", CHART, "--namespace", "jobs"]
    words += ["--kube-version", newest_kubernetes(), "--values", values_file(case)]
    if file:
        words += ["--values", file]
    for each in sets:
        words += ["--set-json", each]
    return [found for found in yaml.safe_load_all(helm(*words)) if found]


def one(manifests: Sequence[Manifest], kind: str, name: str = "") -> Manifest:
    """Return the only manifest of this kind, or of this kind and name."""
    (found,) = of_kind(manifests, kind, name)
    return found


def of_kind(manifests: Sequence[Manifest], kind: str, name: str = "") -> list[Manifest]:
    return [
        found
        for found in manifests
        if found["kind"] == kind and name in ("", found["metadata"]["name"])
    ]


def container(manifest: Manifest) -> Manifest:
    """Return the only container of a Deployment or Job."""
    (found,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(found)


def validate(manifest: Manifest, kubernetes: str = "") -> None:
    """Raise where Kubernetes, or whose resource it is, would not know a field or take a value."""
    import jsonschema
    import kubernetes_validate

    schema = SCHEMAS.get((manifest["apiVersion"], manifest["kind"]))
    if schema is None:
        version = kubernetes or newest_kubernetes()
        kubernetes_validate.validate(manifest, version, strict=True)
    else:
        jsonschema.Draft202012Validator(schema).validate(manifest)


def values_schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return found


def default_values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found
