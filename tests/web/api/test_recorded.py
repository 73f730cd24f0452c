"""What River UI v0.22.0 itself answered to these requests on this database, recorded; we answer the
same.

Of an error only the status is kept: its words are River UI's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from httpx2 import AsyncClient

from riverui.domain.jobs import JobState
from tests.cases import cases
from tests.factory import Make

EMPTY = "truncate river_job, river_queue restart identity"
FILL = """
insert into river_job (
  args, kind, max_attempts, state, metadata, tags, attempt, attempted_at, attempted_by,
  finalized_at,
  created_at, scheduled_at, priority, queue, errors
)
select jsonb_build_object('n', n, 'big', 1970670598291982290::bigint, 'f', 1.10), 'kind' || n % 3,
25,
  s.state,
  '{"batch": 1, "amount": 1.10, "h":"<&>"}',
  case when n % 2 = 0 then '{vip,"a,b"}'::varchar[] else '{}' end,
  case when s.state in ('running', 'completed', 'discarded', 'retryable') then 1 else 0 end,
  case when s.state in ('running', 'completed', 'discarded', 'retryable')
    then timestamptz '2026-11-20T09:00:00Z' + n * interval '1.5 s' end,
  case when s.state in ('running', 'completed') then '{w1,w2}'::text[] end,
  case when s.state in ('cancelled', 'completed', 'discarded')
    then timestamptz '2026-11-21T09:00:00.123Z' + (n % 3) * interval '1 s' end,
  '2026-11-20T08:00:00.5Z', timestamptz '2026-11-20T08:30:00Z' + (n % 4) * interval '1 s', 1 + n %
  4,
  'q' || n % 2,
  case when s.state in ('discarded', 'retryable') then array[jsonb_build_object(
    'at', '2026-11-20T09:00:00.123456789+02:00', 'attempt', 1, 'error', 'boom <x>', 'trace', ''
  )] end
from unnest(enum_range(null::river_job_state)) as s (state)
cross join generate_series(1, 10) n
order by s.state, n;
insert into river_queue (name, created_at, updated_at, metadata, paused_at) values
  ('q0', '2026-11-20T08:00:00Z', '2026-11-20T08:00:00Z',
   '{"concurrency": {"global_limit": 3, "partition": {"by_args": ["x"]}}}', null),
  ('q1', '2026-11-20T08:00:00Z', '2026-11-20T08:00:00Z', '{}', '2026-11-20T08:00:00.5Z'),
  ('a b', '2026-11-20T08:00:00Z', '2026-11-20T08:00:00Z', '{"concurrency": 7}', null)
"""
STATES = frozenset(JobState)
RECORDED = json.loads(Path(__file__).with_name("river_ui.json").read_text(encoding="utf-8"))


def steady(found: Any, *, changes: bool) -> Any:
    """Return an answer without what is ours alone, and without the time of a change or a count."""
    if isinstance(found, dict):
        dropped = {"next_cursor", "observed_at"} | ({"updated_at"} if changes else set())
        return {
            key: steady(value, changes=False) if key in STATES else value
            for key, value in found.items()
            if key not in dropped
        }
    return found


async def test_we_answer_as_river_ui_did(api: AsyncClient, make: Make) -> None:
    assert len(RECORDED) > 100
    fresh = False
    with cases() as case:
        for recorded in RECORDED:
            method, path, body = recorded["method"], recorded["path"], recorded.get("body")
            if not fresh:
                await make.execute(EMPTY)
                await make.execute(FILL)
            fresh = method == "GET"
            with case(f"{method} {path} {json.dumps(body)[:40]}"):
                sent = {"json": body} if "body" in recorded else {}
                answer = await api.request(method, path, **sent)
                assert answer.status_code == recorded["status"], answer.text
                if "answer" in recorded:
                    theirs = json.loads(recorded["answer"])
                    changes = method == "PATCH"
                    assert steady(answer.json(), changes=changes) == steady(theirs, changes=changes)
                    assert list(steady(answer.json(), changes=False)) == list(theirs)
                    assert answer.headers["content-type"] == "application/json; charset=utf-8"
