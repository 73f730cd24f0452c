"""The signals sent to a workflow, and the form that sends one."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.json import read_object, write_json
from riverui.domain.values import is_bigint
from riverui.errors import (
    BadRequest,
    NotFound,
    NotSupported,
    SignalAttemptMismatch,
    SignalConflict,
    SignalRefused,
)
from riverui.features.workflows.domain.workflows import WorkflowRow
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section import without_table
from riverui.features.workflows.section.signals_api import RIGHT, send
from riverui.features.workflows.waits.domain import MAX_KEY
from riverui.features.workflows.waits.store import (
    AwaitedKey,
    SignalInsertParams,
    SignalPageRow,
    WaitStore,
)
from riverui.storage import tables
from riverui.storage.interface import Executor
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.format import number, plain
from riverui.web.view.notices import done
from riverui.web.view.page_parts import Choice
from riverui.web.view.render import respond

_LISTED = 50
"""Signals of a page."""
_FIRST = 5
"""Signals on the workflow's page: its graph and tasks come first."""
_KEYS = 100
"""Keys whose signals are listed together: each takes a search of its own."""
_AWAITED = 200
"""Tasks whose keys are suggested."""
_ATTEMPTS = 5
"""Attempts of the workflow with a link, the newest."""
_MOST_TYPED = 300_000
"""Characters of a payload that the form accepts, as many as of the args of a new job."""


class SignalLine(Struct, frozen=True, kw_only=True):
    """One signal of the list."""

    row: SignalPageRow
    by: str
    """Who sent it; empty if unknown."""
    source: str
    """The rest of its source, as JSON; empty for nothing."""

    @property
    def at(self) -> datetime:
        """When it arrived."""
        return self.row.created_at


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalList:
    """Signals of one attempt of a workflow, the newest first."""

    lines: tuple[SignalLine, ...]
    more: bool
    """Whether there are more signals than these."""
    keys: tuple[str, ...]
    """The existing keys, up to the cap."""
    more_keys: bool


class SignalForm(Struct, frozen=True, kw_only=True):
    """The texts in the form."""

    key: str = ""
    payload: str = ""
    idempotency_key: str = ""


class SignalCard(Struct, frozen=True, kw_only=True):
    """Signals on the page of their workflow."""

    list: SignalList
    awaited: tuple[AwaitedKey, ...]
    """The keys that tasks wait for, now or later."""
    url: str
    may_send: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowsSignals:
    """The signals of a workflow."""

    template: ClassVar[str] = "workflows/signals.html"
    fragments: ClassVar[Mapping[str, str]] = {"workflow-signals": "workflows/_signals.html"}

    row: WorkflowRow
    attempt: int
    """The attempt whose signals these are."""
    list: SignalList
    key: str
    """The requested key; empty for all."""
    awaited: tuple[AwaitedKey, ...]
    attempts: tuple[Choice, ...]
    """The newest attempts; empty if there is only one."""
    form: SignalForm
    once: str
    """The idempotency key of the form, so that sending it twice makes one signal."""
    task: str
    """The task to return to afterwards."""
    problem: str
    """Why nothing was sent."""
    field: str
    """The name of the invalid field; empty if no field is."""
    allowed: bool
    """Whether the viewer may send signals."""
    address: str
    """The address to post the form to."""
    back_url: str
    self_url: str
    all_url: str
    """The address of the signals of all keys."""
    first_url: str
    older_url: str


async def show(request: Request) -> Response:
    """Return the page of a workflow's signals with the form that sends one. Raise NotFound if the
    workflow does not exist; without the tables redirect to the jobs.
    """
    if not await dashboard(request).own_tables.there(WorkflowPageStore):
        return without_table.workflow(request, request.path_params["id"])
    only(request, "attempt", "before", "key", "send", "task")
    params = request.query_params
    filled = SignalForm(key=params.get("send", "")[:MAX_KEY])
    return respond(request, await _page(request, filled, task=params.get("task", "")))


async def create(request: Request) -> Response:
    """Send the signal that was filled in; if it is invalid, return the form with the problem."""
    only(request)
    posted, workflow_id = await form(request), request.path_params["id"]
    filled = SignalForm(
        key=posted.get("key", ""),
        payload=posted.get("payload", ""),
        idempotency_key=posted.get("idempotency_key", ""),
    )
    task, once = posted.get("task", ""), posted.get("once", "")[:MAX_KEY]
    problem, field, status = "", "", 400
    try:
        await _send(request, workflow_id, filled, posted.get("attempt", ""), once)
    except SignalAttemptMismatch as error:
        problem, status = f"{error} Send it again to send it to that one.", 409
    except SignalConflict as error:
        problem, field, status = str(error), "idempotency_key", 409
        if not filled.idempotency_key:
            problem, field = (
                "This form has already sent another signal. Send again for one more.",
                "",
            )
    except SignalRefused as error:
        problem, field = str(error), _field(str(error))
    except NotSupported as error:
        raise NotFound(str(error)) from None
    if problem:
        page = await _page(request, filled, task=task, problem=problem, field=field)
        return respond(request, page, status=status)
    awaited = await _awaited(request, workflow_id)
    waiting = [each.task for each in awaited if each.key == filled.key and each.waiting]
    notice = Notice(
        level="success",
        title=f"Signal {plain(filled.key, 80)} sent",
        details=(_waiting_words(waiting),),
    )
    return done(request, notice, next=_back(request, workflow_id, task), changed="jobs")


async def signal_card(request: Request, executor: Executor, id: str) -> SignalCard | None:
    """Return the signals for the page of a workflow; None if it has none and waits for none."""
    if not await WaitStore.installed(executor):
        return None
    waits = WaitStore(executor)
    row = await waits.own_workflow_get(id)
    if row is None:
        return None
    awaited = await waits.workflow_awaited_key_list(id, limit=_AWAITED)
    found = await _read(executor, row, row.attempt, "", 0, _FIRST)
    if not awaited and not found.lines and row.attempt == 1:
        return None
    return SignalCard(
        list=found,
        awaited=tuple(awaited),
        url=url(request, "workflows.signals", id=id),
        may_send=access(request).may(RIGHT),
    )


ROUTES = (
    GuardedRoute(
        "GET", "/workflows/{id:river_queue}/signals", "workflows.signals", "jobs.read", show
    ),
    GuardedRoute("POST", "/workflows/{id:river_queue}/signals", "workflows.signal", RIGHT, create),
)
"""Their addresses."""


async def _send(request: Request, id: str, filled: SignalForm, attempt: str, once: str) -> None:
    if len(filled.payload) > _MOST_TYPED:
        raise SignalRefused(
            f"A payload of {number(len(filled.payload))} characters is more than the"
            f" {number(_MOST_TYPED)} that this form takes; a program may send more."
        )
    params = SignalInsertParams(
        workflow_id=id,
        key=filled.key,
        payload=filled.payload.strip() or "null",
        source=write_json({"user": access(request).user}),
        attempt=_whole(attempt, "attempt") or None,
        idempotency_key=filled.idempotency_key or (f"form:{once}"[:MAX_KEY] if once else None),
    )
    await send(request, params)


async def _page(
    request: Request,
    filled: SignalForm,
    *,
    task: str = "",
    problem: str = "",
    field: str = "",
) -> WorkflowsSignals:
    workflow_id, params = request.path_params["id"], request.query_params
    before, key = _whole(params.get("before", ""), "before"), params.get("key", "")[:MAX_KEY]
    asked = _whole(params.get("attempt", ""), "attempt")
    async with dashboard(request).driver.reading() as executor:
        if not await WaitStore.installed(executor):
            raise NotFound(tables.message("Signals of workflows need"))
        row = await WaitStore(executor).own_workflow_get(workflow_id)
        if row is None:
            raise NotFound(f"Workflow not found: {workflow_id[:200]}. It may have been removed.")
        attempt = asked or row.attempt
        found = await _read(executor, row, attempt, key, before, _LISTED)
        awaited = await WaitStore(executor).workflow_awaited_key_list(row.id, limit=_AWAITED)
    here = url(request, "workflows.signals", id=row.id)

    def address(**given: str) -> str:
        params = {"attempt": str(asked or ""), "key": key, "task": task} | given
        pairs = {name: value for name, value in params.items() if value}
        return f"{here}?{urlencode(pairs)}" if pairs else here

    newest = row.attempt
    numbers = range(newest, max(newest - _ATTEMPTS, 0), -1) if newest > 1 else ()
    return WorkflowsSignals(
        row=row,
        attempt=attempt,
        list=found,
        key=key,
        awaited=tuple(awaited),
        attempts=tuple(
            Choice(
                value=str(each),
                label=f"Attempt {each}",
                url=address(attempt="" if each == newest else str(each)),
                current=each == attempt,
            )
            for each in numbers
        ),
        form=filled,
        once=secrets.token_urlsafe(12),
        task=task,
        problem=problem,
        field=field,
        allowed=access(request).may(RIGHT),
        address=url(request, "workflows.signal", id=row.id),
        back_url=_back(request, row.id, task),
        self_url=address(before=str(before or "")),
        all_url=address(key=""),
        first_url=address() if before else "",
        older_url=address(before=str(found.lines[-1].row.id)) if found.more else "",
    )


async def _read(
    executor: Executor, row: WorkflowRow, attempt: int, key: str, before: int, limit: int
) -> SignalList:
    waits = WaitStore(executor)
    keys = await waits.workflow_signal_key_list(row.id, attempt=attempt, limit=_KEYS + 1)
    rows = await waits.workflow_signal_page_list(
        row.id,
        attempt=attempt,
        keys=[key] if key else keys[:_KEYS],
        before=before,
        limit=limit + 1,
    )
    return SignalList(
        lines=tuple(map(_line, rows[:limit])),
        more=len(rows) > limit,
        keys=tuple(keys[:_KEYS]),
        more_keys=len(keys) > _KEYS,
    )


def _line(row: SignalPageRow) -> SignalLine:
    source = read_object(row.source or "")
    user = source.pop("user", None)
    if isinstance(user, str) and user:
        return SignalLine(row=row, by=user, source=write_json(source) if source else "")
    text = row.source or ""
    return SignalLine(
        row=row, by="", source="" if text in ("null", "{}", '{"user": null}') else text
    )


async def _awaited(request: Request, id: str) -> Sequence[AwaitedKey]:
    async with dashboard(request).driver.reading() as executor:
        return await WaitStore(executor).workflow_awaited_key_list(id, limit=_AWAITED)


def _waiting_words(waiting: Sequence[str]) -> str:
    if not waiting:
        return "No task waits for it now. Tasks that begin to wait later see it."
    names = ", ".join(plain(name, 60) for name in waiting[:3])
    more = f" and {number(len(waiting) - 3)} more" if len(waiting) > 3 else ""
    return f"{names}{more} {'waits' if len(waiting) == 1 else 'wait'} for it and will check it."


def _back(request: Request, id: str, task: str) -> str:
    here = url(request, "workflows.show", id=id)
    return f"{here}?{urlencode({'task': task})}" if task else here


def _field(problem: str) -> str:
    """Return the field that a refusal is about, by its words."""
    names = {"payload": "payload", "idempotency key": "idempotency_key", "key": "key"}
    return next((field for words, field in names.items() if words in problem[:40]), "")


def _whole(text: str, what: str) -> int:
    """Return a number from an address or a form, 0 for none; raise BadRequest if it is invalid."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 20 and is_bigint(int(text))):
        raise BadRequest(f"“{what}” must be a whole number.")
    return int(text)
