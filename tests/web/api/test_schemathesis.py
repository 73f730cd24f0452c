"""Made-up requests by the hundred: no server error, and no answer that the OpenAPI document does
not know.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from bench.pages import serve
from riverui.web.auth.tokens import new_token
from tests.conftest import create_database, drop_database, with_database
from tests.pro_tables import PRO_TABLES
from tests.scale import scaled
from tests.web.api.test_openapi import entries

EXAMPLES = scaled(15, 60)
"""Requests made up for each address."""
UNASKED = {"api.jobs.export", "api.openapi"}
"""A file is no single JSON, and the document is asked for first of all."""
EMPTY = """
truncate river_job, river_queue, river_workflow, river_periodic_job, river_producer
  restart identity cascade
"""
FILL = """
insert into river_job (args, kind, max_attempts, state, metadata, tags, attempted_at, finalized_at)
select '{"n": 1}', 'kind' || n % 3, 25, s.state, '{"batch": 1}', '{vip}', now(),
  case when s.state in ('cancelled', 'completed', 'discarded') then now() end
from unnest(enum_range(null::river_job_state)) as s (state) cross join generate_series(1, 5) n;
insert into river_queue (name, updated_at) values ('default', now()), ('mail', now())
"""

WORKFLOW = """
insert into river_workflow values ('w', 'import', 1);
insert into river_periodic_job (id, next_run_at) values ('daily', now());
insert into river_producer (client_id, queue_name, max_workers) values ('client', 'default', 10);
insert into river_job (args, kind, max_attempts, state, metadata)
select '{}', 'task', 25, 'pending',
  jsonb_build_object('workflow_id', 'w', 'task', 'task' || n, 'deps', '[]'::jsonb)
from generate_series(1, 3) n
"""


class Served(NamedTuple):
    """A running server: its document, who may do everything there, and its database."""

    schema: Any
    token: str
    database: psycopg.Connection[Any]


@pytest.fixture(scope="module")
def served(admin_url: str, own_template_database: str) -> Iterator[Served]:
    """Yield a server on a database with some of everything."""
    # Loaded here, as it takes long.
    import schemathesis

    name = create_database(admin_url, template=own_template_database)
    url = with_database(admin_url, name)
    token, line = new_token("schemathesis", "all")
    settings = {"DATABASE_URL": url, "RIVERUI_API_TOKENS": line, "RIVER_HOST": "127.0.0.1"}
    with (
        psycopg.connect(url, autocommit=True) as connection,
        serve([sys.executable, "-m", "riverui", "serve"], settings) as port,
    ):
        connection.execute(PRO_TABLES)
        address = f"http://127.0.0.1:{port}/api/openapi.json"
        headers = {"Authorization": f"Bearer {token}"}
        yield Served(schemathesis.openapi.from_url(address, headers=headers), token, connection)
    drop_database(admin_url, name)


@pytest.mark.xdist_group("schemathesis")
@pytest.mark.parametrize("name", sorted({entry.name for entry in entries()} - UNASKED))
def test_answers_are_what_the_document_says(served: Served, name: str) -> None:
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    served.database.execute(EMPTY)
    served.database.execute(FILL)
    served.database.execute(WORKFLOW)
    (operation,) = (
        found
        for result in served.schema.get_all_operations()
        if (found := result.ok()).definition.raw["operationId"] == name
    )

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def holds(case: Any) -> None:
        case.call_and_validate(
            headers={"Authorization": f"Bearer {served.token}"},
            timeout=20,
            # What fits the schema may still make no sense: a search text, a cursor, a name of a
            # queue.
            excluded_checks=[positive_data_acceptance],
        )

    holds()
