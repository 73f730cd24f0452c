"""What the chart's containers run, run against a real Postgres: their commands with their
environment, the probes, and the query and the figures by which KEDA scales.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow

from tests import factory
from tests.conftest import create_database, drop_database, with_database
from tests.deploy.chart import Manifest, container, of_kind, one, rendered
from tests.ports import free_port
from tests.replicas.processes import Replica, wait_for

ROOT = Path(__file__).parents[2]
ROWS = 200_000
"""Jobs in the table: as many as make a scan of it stand out from what an index reads."""
LONG = 90
"""Seconds that a program may take to start on a machine that has much else to do."""
WORKER = "shop-riverui-worker-default"


def environment(inside: Manifest, secrets: dict[str, str], etc: Path) -> dict[str, str]:
    """Return the container's environment, with what its Secrets hold: as values, or as files in
    `etc` in place of the folder that they are mounted at.
    """
    found = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    for each in inside["env"]:
        if "value" in each:
            found[each["name"]] = each["value"].replace("/etc/riverui", str(etc))
        else:
            key = each["valueFrom"]["secretKeyRef"]
            found[each["name"]] = secrets[f"{key['name']}/{key['key']}"]
    for name, value in found.items():
        if name.endswith("_FILE"):
            file = Path(value)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(secrets[f"{file.parent.name}/{file.name}"])
    return found


@asynccontextmanager
async def running(
    inside: Manifest, environ: dict[str, str], *, folder: Path = ROOT
) -> AsyncIterator[Replica]:
    """Yield what the container starts, in a folder."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "riverui", *inside["args"]),
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    started = Replica(inside.get("ports", [{"containerPort": 0}])[0]["containerPort"], process)
    try:
        yield started
    finally:
        await started.end()


async def answers(inside: Manifest, probe: str, started: Replica) -> bool:
    """Return whether the probe finds the container well, as the kubelet asks."""
    asked = inside[probe]["httpGet"]
    (port,) = [each for each in inside["ports"] if each["name"] == asked["port"]]
    address = f"http://127.0.0.1:{port['containerPort']}{asked['path']}"
    try:
        async with httpx2.AsyncClient(timeout=20) as client:
            status = (await client.get(address)).status_code
    except httpx2.TransportError:
        assert started.process.returncode is None, started.lines
        return False
    assert status in (200, 503), (address, status)
    return status == 200


@pytest.mark.parametrize("case", ["minimal", "full"])
async def test_the_dashboard_answers_its_probes(
    case: str, database_url: str, tmp_path: Path
) -> None:
    manifests = rendered(case, f"dashboard.port={free_port()}", 'database.schema=""')
    (deployment,) = [
        each for each in of_kind(manifests, "Deployment") if container(each)["args"] == ["serve"]
    ]
    inside = container(deployment)
    secrets = {
        "river-database/DATABASE_URL": database_url,
        "database/uri": database_url,
        "database-read/DATABASE_URL_READ": database_url,
        "riverui-login/username": "ada",
        "riverui-login/password": "correct horse",
        "riverui-key/RIVERUI_SECRET_KEY": "0123456789abcdef",
        "htpasswd/htpasswd": "ada:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
        "api-tokens/tokens": f"prometheus:{'0' * 64}:metrics.read\n",
        "encryption-keys/keys": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n",
    }
    async with running(inside, environment(inside, secrets, tmp_path)) as dashboard:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            await wait_for(partial(answers, inside, probe, dashboard), seconds=LONG)
        prefix = inside["startupProbe"]["httpGet"]["path"].removesuffix(
            "/api/health-checks/complete"
        )
        address = f"http://127.0.0.1:{dashboard.port}{prefix}"
        async with httpx2.AsyncClient(timeout=20) as client:
            assert (await client.get(f"{address}/jobs")).status_code == 401
            monitors = of_kind(manifests, "ServiceMonitor")
            for each in monitors:
                path = each["spec"]["endpoints"][0]["path"]
                told = await client.get(f"http://127.0.0.1:{dashboard.port}{path}")
                assert told.status_code == 401, "it is there, for who has a token"
        assert await dashboard.stop() == 0


async def test_a_dashboard_without_its_database_never_counts_as_started(tmp_path: Path) -> None:
    manifests = rendered("minimal", f"dashboard.port={free_port()}")
    inside = container(one(manifests, "Deployment", "shop-riverui"))
    nobody = f"postgres://river@127.0.0.1:{free_port()}/river"
    secrets = {
        "river-database/DATABASE_URL": nobody,
        "riverui-login/username": "ada",
        "riverui-login/password": "correct horse",
    }
    async with running(inside, environment(inside, secrets, tmp_path)) as dashboard:
        await wait_for(partial(answers, inside, "livenessProbe", dashboard), seconds=LONG)
        assert not await answers(inside, "startupProbe", dashboard)


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_worker_answers_its_probes_and_stops(
    processes: int, database_url: str, tmp_path: Path
) -> None:
    manifests = rendered(
        "worker",
        f"workers[0].healthPort={free_port()}",
        f"workers[0].processes={processes}",
        'workers[0].queues=["default=4"]',
        'workers[0].podMonitor={"enabled": true}',
    )
    inside = container(one(manifests, "Deployment", WORKER))
    secrets = {"river-database/DATABASE_URL": database_url}
    environ = environment(inside, secrets, tmp_path)
    async with running(inside, environ, folder=ROOT / "examples/worker") as worker:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            await wait_for(partial(answers, inside, probe, worker), seconds=LONG)
        path = one(manifests, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["path"]
        async with httpx2.AsyncClient(timeout=20) as client:
            told = await client.get(f"http://127.0.0.1:{worker.port}{path}")
        assert "riverui_worker_slots" in told.text
        assert await worker.stop() == 0


async def test_the_migration_makes_the_tables(empty_database_url: str, tmp_path: Path) -> None:
    inside = container(one(rendered("minimal"), "Job"))
    secrets = {"river-database/DATABASE_URL": empty_database_url}
    for _ in ("an installation", "an upgrade"):
        async with running(inside, environment(inside, secrets, tmp_path)) as migration:
            assert await migration.process.wait() == 0, migration.lines
    with psycopg.connect(empty_database_url) as connection:
        found = connection.execute("select distinct line from river_migration order by 1")
        assert found.fetchall() == [("main",), ("riverui",)]


async def test_a_password_comes_from_a_file(empty_database_url: str, tmp_path: Path) -> None:
    place = conninfo_to_dict(empty_database_url)
    database = {
        "existingSecret": "postgres",
        "asFile": True,
        "host": place["host"],
        "port": int(str(place.get("port", 5432))),
        "name": place["dbname"],
        "user": place["user"],
        "sslmode": "prefer",
    }
    inside = container(one(rendered("minimal", f"database={json.dumps(database)}"), "Job"))
    environ = environment(
        inside, {"database/password": str(place.get("password", "secret"))}, tmp_path
    )
    assert "PGPASSWORD" not in environ
    assert environ["DATABASE_PASSWORD_FILE"] == str(tmp_path / "database/password")
    async with running(inside, environ) as migration:
        assert await migration.process.wait() == 0, migration.lines


def query(*sets: str) -> str:
    """Return what KEDA asks the database, for 8 pods of 20 jobs and the queues mail and a|b."""
    (trigger,) = one(
        rendered("keda-postgresql", *(sets or ['database.schema=""'])), "ScaledObject"
    )["spec"]["triggers"]
    return str(trigger["metadata"]["query"])


async def test_keda_counts_waiting_jobs(
    connection: AsyncConnection[DictRow],
) -> None:
    async def counted(text: str) -> Any:
        (row,) = await (await connection.execute(text.encode())).fetchall()
        (value,) = row.values()
        assert isinstance(value, int)
        return value

    assert await counted(query()) == 0
    ago, ahead = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))
    for name in ("mail", "a|b", "other"):
        await factory.queue(connection, name)
        for state in ("available", "running", "completed", "discarded", "cancelled", "pending"):
            await factory.job(connection, state, queue=name)
        for state in ("scheduled", "retryable"):
            await factory.job(connection, state, queue=name, scheduled_at=ago, priority=4)
            await factory.job(connection, state, queue=name, scheduled_at=ahead)
    one_queue = 1 + 1 + 2
    assert await counted(query()) == 2 * one_queue
    assert (
        await counted(query('database.schema=""', "workers[0].autoscaling.countRunning=false"))
        == 2 * 3
    )
    assert (
        await counted(query('database.schema=""', 'workers[0].autoscaling.queues=["mail"]'))
        == one_queue
    )

    await connection.execute("update river_queue set paused_at = now() where name = 'mail'")
    assert await counted(query()) == one_queue + 1, "what runs there goes on"

    for _ in range(200):
        await factory.job(connection, queue="a|b")
    all_of_them = 1 + 8 * 20 + 1 + 2
    assert await counted(query()) == all_of_them, "more makes no difference"

    # In a schema, and as a user who may read no more than the guide says.
    role = f"keda_{token_hex(6)}"
    await connection.execute(
        f"""
        create schema river;
        alter table river_job set schema river;
        alter table river_queue set schema river;
        create role {role};
        grant usage on schema river to {role};
        grant select on river.river_job, river.river_queue to {role};
        """.encode()
    )
    try:
        await connection.execute(f"set role {role}".encode())
        assert await counted(query('database.schema="river"')) == all_of_them
    finally:
        await connection.execute(f"reset role; drop owned by {role}; drop role {role}".encode())


@pytest.fixture(scope="module")
def busy_database_url(admin_url: str, template_database: str) -> Iterator[str]:
    """Yield a database with many jobs in all states, most of them completed or of a year ahead."""
    name = create_database(admin_url, template=template_database)
    url = with_database(admin_url, name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            insert into river_job (
              args, attempt, finalized_at, kind, max_attempts, priority, queue, scheduled_at, state
            )
            select '{}', 1, case when state = 'completed' then now() end, 'mail', 25, 1 + mod(n, 4),
              case when mod(n, 2) = 0 then 'mail' else 'other' end,
              now() + case when state in ('scheduled', 'retryable') and mod(n, 100) > 1
                then interval '1 year' else interval '-1 minute' end,
              state::river_job_state
            from generate_series(1, %s) n
            cross join lateral (
              select (array['completed', 'completed', 'completed', 'available', 'scheduled',
                'retryable', 'running'])[1 + mod(n / 8, 7)] as state
            ) as chosen
            """,
            [ROWS],
        )
        connection.execute("vacuum analyze river_job")
    yield url
    drop_database(admin_url, name)


def test_keda_reads_no_more_of_the_index_than_it_counts(busy_database_url: str) -> None:
    """By the plan that Postgres chooses by itself: KEDA sets nothing."""
    with psycopg.connect(busy_database_url) as connection:
        explained = f"explain (analyze, timing off, format json) {query()}"
        ((found,),) = connection.execute(explained.encode()).fetchall()
    plan = json.loads(found) if isinstance(found, str) else found
    reads = 0.0
    for node in _nodes(plan[0]["Plan"]):
        if node.get("Relation Name") != "river_job":
            continue
        assert node["Node Type"] in ("Index Scan", "Index Only Scan"), node
        assert node["Index Name"] == "river_job_prioritized_fetching_index"
        removed = sum(value for key, value in node.items() if key.startswith("Rows Removed"))
        reads += (node["Actual Rows"] + removed) * node["Actual Loops"]
    # Of two queues available, running, and in two states those due of each of four priorities.
    assert 0 < reads <= 2 * (1 + 1 + 2 * 4) * 8 * 20


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def test_the_figures_that_keda_asks_prometheus_for_are_told(
    database_url: str, connection: AsyncConnection[DictRow], tmp_path: Path
) -> None:
    manifests = rendered("keda-prometheus", f"dashboard.port={free_port()}")
    (trigger,) = one(manifests, "ScaledObject")["spec"]["triggers"]
    asked = trigger["metadata"]["query"]
    names = set(re.findall(r"\briver(?:ui)?_\w+", asked))
    assert names == {"river_queue_jobs", "river_queue_paused", "riverui_database_up"}
    states = set(re.findall(r'state="(\w+)"', asked))
    assert states == {"available", "running"}
    await factory.queue(connection, "mail")
    await factory.job(connection, queue="mail")

    inside = container(one(manifests, "Deployment", "shop-riverui"))
    secrets = {
        "river-database/DATABASE_URL": database_url,
        "riverui-login/username": "ada",
        "riverui-login/password": "correct horse",
    }
    async with (
        running(inside, environment(inside, secrets, tmp_path)) as dashboard,
        httpx2.AsyncClient(auth=("ada", "correct horse"), timeout=20) as client,
    ):
        await wait_for(partial(answers, inside, "startupProbe", dashboard), seconds=LONG)

        async def told() -> str:
            text = (await client.get(f"http://127.0.0.1:{dashboard.port}/metrics")).text
            return text if "river_queue_jobs{" in text else ""

        lines = (await wait_for(told, seconds=LONG)).splitlines()
    for name in names:
        assert [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))], name
    assert 'river_queue_paused{queue="mail"} 0.0' in lines
    assert 'river_queue_jobs{queue="mail",state="available"} 1.0' in lines
    assert 'river_queue_jobs{queue="mail",state="running"} 0.0' in lines
