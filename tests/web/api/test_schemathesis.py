"""Made-up requests by the hundred: no server error, and no answer that the OpenAPI document does
not know.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from riverui.web.auth.tokens import new_token
from tests.bench.pages import serve
from tests.own_tables import OWN_TABLES
from tests.pro_tables import PRO_TABLES
from tests.web.api.test_openapi import entries

EXAMPLES = 30
"""Requests made up for each address: a quick test's share."""
UNASKED = {"api.jobs.export", "api.openapi"}
"""A file is no single JSON, and the document is asked for first of all."""
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


@pytest.fixture(scope="module")
def token() -> tuple[str, str]:
    """Return a token for everything, and its line."""
    return new_token("schemathesis", "all")


@pytest.fixture
def schema(database_url: str, token: tuple[str, str]) -> Iterator[Any]:
    """Yield the document of a running server, on a database with some of everything."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute(PRO_TABLES)
        connection.execute(WORKFLOW)
        connection.execute(OWN_TABLES)
    settings = {
        "DATABASE_URL": database_url,
        "RIVERUI_API_TOKENS": token[1],
        "RIVER_HOST": "127.0.0.1",
    }
    with serve([sys.executable, "-m", "riverui", "serve"], settings) as port:
        headers = {"Authorization": f"Bearer {token[0]}"}
        yield schemathesis.openapi.from_url(
            f"http://127.0.0.1:{port}/api/openapi.json", headers=headers
        )


@pytest.mark.parametrize("name", sorted({entry.name for entry in entries()} - UNASKED))
def test_answers_are_what_the_document_says(schema: Any, token: tuple[str, str], name: str) -> None:
    (operation,) = (
        found
        for result in schema.get_all_operations()
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
            headers={"Authorization": f"Bearer {token[0]}"},
            timeout=20,
            # What fits the schema may still make no sense: a search text, a cursor, a name of a
            # queue.
            excluded_checks=[positive_data_acceptance],
        )

    holds()
