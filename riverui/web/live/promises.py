"""What the preview of an action on all that match promises: its form carries that, signed, and what
is started is that and nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from itsdangerous import BadData
from starlette.requests import Request

from riverui.actions.pace import read_pace
from riverui.actions.verbs import JobVerb
from riverui.errors import BadRequest
from riverui.storage.interface.params import Count, CountKind, JobCutoff, JobFilter, JobOrder
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.forms import Form
from riverui.web.live.operation_run import Operation
from riverui.web.live.operation_store import NewOperation
from riverui.web.search import query, time_terms


def token(
    request: Request, verb: JobVerb, text: str, cutoff: JobCutoff, count: Count, *, salt: str
) -> str:
    """Return what a preview promised, signed; empty where nothing matches. Its id becomes the
    operation's, so sent twice it starts only one.
    """
    if count == Count(value=0):
        return ""
    promised = {
        "id": secrets.token_urlsafe(9),
        "verb": verb.name,
        "filter": text,
        "cutoff_id": cutoff.id,
        "cutoff_at": time_terms.exact_text(cutoff.at),
        "count": count.value,
        "count_kind": count.kind.value,
    }
    return str(dashboard(request).signer.dumps(promised, salt=salt))


async def begin(
    request: Request,
    verb: JobVerb,
    posted: Form,
    *,
    salt: str,
    order: Callable[[JobFilter], JobOrder],
) -> Operation:
    """Start what the preview promised whose form was posted, and return it. BadRequest for a
    preview that is too old, was changed, or was made for another verb.
    """
    board = dashboard(request)
    try:
        found = board.signer.loads(
            posted.get("token", ""), salt=salt, max_age=board.limits.preview_seconds
        )
    except BadData:
        raise BadRequest("This preview has expired or was changed: open it again.") from None
    if found["verb"] != verb.name:
        raise BadRequest("This preview was made for another action.")
    now = datetime.now(UTC)
    matching = query.parse_own(found["filter"], now=now).filter()
    asked = NewOperation(
        id=found["id"],
        verb=verb,
        given=verb.read(posted),
        filter=matching,
        filter_text=found["filter"],
        order=order(matching),
        cutoff=JobCutoff(id=found["cutoff_id"], at=time_terms.parse(found["cutoff_at"], now).start),
        total=Count(value=found["count"], kind=CountKind(found["count_kind"])),
        user=access(request).user,
        pace=read_pace(verb, posted),
    )
    operation = await (await board.operation_store()).begin(asked)
    board.counts.expire()
    return operation
