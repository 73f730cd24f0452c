"""The Helm chart, judged by `helm` itself and by Kubernetes' own schemas."""

from __future__ import annotations

import re
import shlex
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from riverui import __version__ as riverui_version
from riverui.cli.main import riverui
from riverui.cli.settings import SETTINGS
from riverui.cli.worker.settings import WORKER_SETTINGS
from tests.deploy.chart import (
    CASES,
    CHART,
    OLDEST_KUBERNETES,
    Manifest,
    Refused,
    container,
    default_values,
    helm,
    newest_kubernetes,
    of_kind,
    one,
    rendered,
    validate,
    values_file,
    values_schema,
)

GUIDE = (CHART.parents[2] / "docs/operate/kubernetes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```yaml\n(.*?)^```$", GUIDE)
"""The guide's values files."""


@pytest.mark.parametrize("case", CASES)
def test_helm_finds_nothing_to_complain_about(case: str) -> None:
    told = helm(
        "lint",
        "--strict",
        "--kube-version",
        newest_kubernetes(),
        CHART,
        "--values",
        values_file(case),
    )
    assert "0 chart(s) failed" in told


@pytest.mark.parametrize("case", CASES)
def test_kubernetes_takes_every_manifest(case: str) -> None:
    manifests = rendered(case)
    assert manifests
    for manifest in manifests:
        validate(manifest)
        validate(manifest, OLDEST_KUBERNETES)
    names = [(found["kind"], found["metadata"]["name"]) for found in manifests]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES)
def test_no_value_ends_up_where_secrets_can_be_read(case: str) -> None:
    manifests = rendered(case)
    assert not of_kind(manifests, "ConfigMap")
    assert not of_kind(manifests, "Secret"), "none is made: they are named"
    secret = {name for setting in SETTINGS if setting.secret for name in setting.env_names}
    for found in _pods(manifests):
        for variable in container(found).get("env", []):
            name = variable["name"]
            if name in secret | {"PGPASSWORD"} and not name.endswith("_FILE"):
                assert "secretKeyRef" in variable["valueFrom"], name


@pytest.mark.parametrize("case", CASES)
def test_every_pod_is_powerless(case: str) -> None:
    """As the Pod Security Standard `restricted` demands, and then some."""
    for found in _pods(rendered(case)):
        pod, inside = found["spec"]["template"]["spec"], container(found)["securityContext"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert inside["readOnlyRootFilesystem"] is True
        assert inside["allowPrivilegeEscalation"] is False
        assert inside["capabilities"] == {"drop": ["ALL"]}
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(pod)
        for volume in pod["volumes"]:
            assert set(volume) - {"name"} <= {"configMap", "emptyDir", "secret"}
        assert {"name": "tmp", "mountPath": "/tmp"} in container(found)["volumeMounts"]


@pytest.mark.parametrize("case", CASES)
def test_what_containers_are_given_is_what_riverui_takes(case: str) -> None:
    known = {name for each in (*SETTINGS, *WORKER_SETTINGS) for name in each.env_names}
    for found in _pods(rendered(case)):
        inside = container(found)
        for variable in inside["env"]:
            # Those of a worker's program are its own; PGHOST and the like are libpq's.
            if variable["name"].startswith(("RIVER", "DATABASE")) or variable["name"] == "PORT":
                assert variable["name"] in known
        command, *words = inside["args"]
        riverui.commands[command].make_context(command, list(words), obj={})


@pytest.mark.parametrize("case", CASES)
def test_services_budgets_and_policies_find_their_pods(case: str) -> None:
    manifests = rendered(case)
    labels = [found["spec"]["template"]["metadata"]["labels"] for found in _pods(manifests)]
    for found in manifests:
        spec = found.get("spec", {})
        selector = spec.get("podSelector", spec.get("selector", {}))
        wanted = selector.get("matchLabels", selector)
        if not wanted:
            continue
        assert len([each for each in labels if wanted.items() <= each.items()]) == 1, found


@pytest.mark.parametrize("case", CASES)
def test_ports_are_named_as_their_container_names_them(case: str) -> None:
    manifests = rendered(case)
    ports = {
        found["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: [
            port["name"] for port in container(found).get("ports", [])
        ]
        for found in _pods(manifests)
    }
    asked = 0
    for found in manifests:
        spec, labels = found.get("spec", {}), found["metadata"]["labels"]
        named = [port["targetPort"] for port in spec.get("ports", [])]
        named += [each["port"] for each in spec.get("endpoints", [])]
        named += [each["port"] for each in spec.get("podMetricsEndpoints", [])]
        if found["kind"] == "NetworkPolicy":
            named += [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
        for name in named:
            assert name in ports[labels["app.kubernetes.io/component"]], found
        asked += len(named)
    assert asked or not of_kind(manifests, "Service")


def test_a_prefix_is_told_to_all_who_need_it() -> None:
    manifests = rendered("full")
    (rule, *_) = one(manifests, "Ingress")["spec"]["rules"]
    assert rule["http"]["paths"][0]["path"] == "/river"
    (match,) = one(manifests, "HTTPRoute")["spec"]["rules"][0]["matches"]
    assert match["path"] == {"type": "PathPrefix", "value": "/river"}
    inside = container(one(manifests, "Deployment", "river"))
    assert {"name": "PATH_PREFIX", "value": "/river"} in inside["env"]


def test_what_keda_scales_has_no_number_of_its_own() -> None:
    manifests = rendered("several-workers")
    scaled = one(manifests, "Deployment", "shop-riverui-worker-mail")
    assert "replicas" not in scaled["spec"]
    reference = one(manifests, "ScaledObject")["spec"]["scaleTargetRef"]
    assert reference == {"name": scaled["metadata"]["name"]}
    assert one(manifests, "Deployment", "shop-riverui-worker-reports")["spec"]["replicas"] == 2
    budgets = {found["metadata"]["name"] for found in of_kind(manifests, "PodDisruptionBudget")}
    assert budgets == {"shop-riverui-worker-mail", "shop-riverui-worker-reports"}
    quiet = container(one(manifests, "Deployment", "shop-riverui-worker-rest"))
    assert "--metrics" not in quiet["args"], "an entry's false wins over a true of workerDefaults"


def test_every_value_has_a_default_and_a_rule() -> None:
    schema = values_schema()

    def names(found: object, rule: dict[str, Any], path: str = "") -> None:
        rule = schema["definitions"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
        if "properties" in rule:
            assert isinstance(found, dict)
            known = {name for name in rule["properties"] if name != "global"}
            if path.endswith(".fallback"):
                return
            if path.endswith(("resources", "behavior", "authenticationRef")):
                assert set(found) <= known, path
                return
            assert set(found) == known, path
            for name in known:
                names(found[name], rule["properties"][name], f"{path}.{name}")

    names(default_values(), schema)
    entry = schema["definitions"]["worker"]["properties"]
    assert set(entry) == {"name", *schema["definitions"]["workerDefaults"]["properties"]}


def test_every_value_has_a_comment() -> None:
    """Above it, or above the first of a few that belong together."""
    free = (
        *("SecurityContext:", "securityContext:", "env:", "strategy:", "resources:"),
        *("behavior:", "scaleDown:", "policies:"),
    )
    lines = [line for line in (CHART / "values.yaml").read_text().splitlines() if line.strip()]
    bare = []
    for before, line in pairwise(lines):
        indent = len(line) - len(line.lstrip())
        first = indent > len(before) - len(before.lstrip()) or not indent
        told = before.lstrip().startswith("#") or before.endswith(free)
        if re.match(r" *\w+:", line) and first and not told:
            bare.append(line)
    assert bare == []


def test_the_chart_is_of_this_version_and_packs(tmp_path: Path) -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == riverui_version
    assert about["kubeVersion"] == f">={OLDEST_KUBERNETES}-0"
    helm("package", CHART, "--destination", tmp_path)
    with tarfile.open(tmp_path / f"riverui-{about['version']}.tgz") as package:
        files = {name.removeprefix("riverui/") for name in package.getnames()}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "templates/NOTES.txt"} <= files
    assert not {name for name in files if name.startswith("ci/")}


def test_a_worker_has_time_to_stop() -> None:
    manifests = rendered("worker")
    worker = one(manifests, "Deployment", "shop-riverui-worker-default")
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 20 + 10 + 5
    sets = 'workers[0].stop={"softSeconds": 600, "hardSeconds": 30}'
    worker = one(rendered("worker", sets), "Deployment", "shop-riverui-worker-default")
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 600 + 30 + 5
    assert "--soft-stop=600s" in container(worker)["args"]


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ('database.existingSecret=""', "database.existingSecret is empty: name a Secret"),
        ('dashboard.auth.basic.existingSecret=""', "nobody could sign in"),
        ("dashboard.auth.none=true", "choose one"),
        ("dashboard.replicas=2", "all of them need one key for cookies"),
        ("workers[0].terminationGracePeriodSeconds=20", "less than the 30 s"),
        ('dashboard.replicas="two"', "/dashboard/replicas"),
        ("dashboard.port=0", "/dashboard/port"),
        ('dashboard.env={"RIVERUI_READ_ONYL": true}', "RIVERUI_READ_ONYL"),
        ('dashboard.env={"RIVER_BASIC_AUTH_PASS": "secret"}', "RIVER_BASIC_AUTH_PASS"),
        ('dashboard.pathPrefix="river"', "/dashboard/pathPrefix"),
        ('workers[0].replica="3"', "replica"),
        ('workers[0].client="jobs"', "/workers/0/client"),
        ('workers[0].queues=["mail\'; drop table river_job --"]', "/workers/0/queues/0"),
        ('workers[0].env={"DATABASE_URL": "postgres://…"}', "DATABASE_URL"),
        ('database.schema="jobs; drop"', "/database/schema"),
        ('image.digest="latest"', "/image/digest"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_in_words(sets: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered("worker", sets)
    assert words in str(refused.value)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_values_in_the_guide_are_taken(number: int, tmp_path: Path) -> None:
    file = tmp_path / "river.yaml"
    file.write_text(BLOCKS[number])
    manifests = rendered("minimal", file=file)
    assert manifests != rendered("minimal") or number == 0
    for manifest in manifests:
        validate(manifest)


def test_the_commands_in_the_guide_are_helms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would ask a cluster is rendered instead."""
    blocks = re.findall(r"(?ms)^```console\n(.*?)^```$", GUIDE)
    commands = [line for block in blocks for line in block.splitlines() if line[:5] == "helm "]
    assert len(commands) == 2
    (tmp_path / "river.yaml").write_text(BLOCKS[0])
    (tmp_path / "deploy").symlink_to(CHART.parents[1])
    monkeypatch.chdir(tmp_path)
    told = []
    for command in commands:
        words = shlex.split(command.replace("upgrade --install", "template").partition(" > ")[0])
        told.append(helm(*words[1:], "--kube-version", newest_kubernetes()))
    assert told[0] == told[1]
    # Names that the guide's other commands use.
    for name in re.findall(r"service/(\w+)|job/([\w-]+)|delete job ([\w-]+)", GUIDE):
        assert f"name: {''.join(name)}\n" in told[0]


def _pods(manifests: tuple[Manifest, ...] | list[Manifest] | object) -> list[Manifest]:
    """Return what pods are made from."""
    assert isinstance(manifests, list | tuple)
    return [found for found in manifests if found["kind"] in ("Deployment", "Job")]
