"""What River's own tables add to the timeline: pauses of queues, and the leader's election."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from starlette.requests import Request

from riverui.domain.health.clients import host
from riverui.domain.queues import QueueRow
from riverui.errors import DatabaseError
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url
from riverui.web.sections.overview.facts import queue_rows
from riverui.web.view.contributions import Event
from riverui.web.view.facts import fact


async def events(request: Request, since: datetime, until: datetime) -> Sequence[Event]:
    """Return when queues were paused and resumed last, and when the leader was elected."""
    queues = await queue_rows(request)
    found: list[Event] = []
    for row in () if queues is None or isinstance(queues, DatabaseError) else queues:
        found += _pauses(row.queue, url(request, "queues.show", name=row.queue.name))
    leader = await fact(dashboard(request).driver, lambda executor: executor.leader.get())
    if leader is not None and not isinstance(leader, DatabaseError):
        elected = partial(Event, icon="flag", words="was elected leader", election=True)
        found.append(elected(at=leader.elected_at, name=host(leader.leader_id)))
    return [event for event in found if since <= event.at < until]


def _pauses(queue: QueueRow, link: str) -> Iterator[Event]:
    last, named = queue.last_pause, partial(Event, name=queue.name, url=link, deed=True)
    if queue.paused_at is not None:
        note, by = queue.reason.note, queue.reason.by
        words = f"paused: {note}" if note else "paused"
        yield named(at=queue.paused_at, icon="pause", words=words, user=by)
    elif last is not None and last.resumed_at is not None:
        words = f"paused: {last.note}" if last.note else "paused"
        yield named(at=last.at, icon="pause", words=words, user=last.by)
        yield named(at=last.resumed_at, icon="play", words="resumed", user=last.resumed_by)
