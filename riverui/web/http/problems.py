"""Turn exceptions into responses: a page, a notice for htmx, or JSON under /api."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseMissing,
    DatabaseUnavailable,
    FileWithoutTables,
    Forbidden,
    JobRunning,
    LockTimeout,
    LoginRefused,
    NotFound,
    NotSupported,
    PermissionDenied,
    QueryTimeout,
    ReadOnlyDatabase,
    RiveruiError,
    SchemaMissing,
    SchemaTooOld,
    ServerTooOld,
    SignalAttemptMismatch,
    SignalConflict,
    SignInNeeded,
    StandbyConflict,
    StandbyLacks,
    TooBusy,
    TooManyAttempts,
    UniqueConflict,
)
from riverui.web.api.serializers import reply
from riverui.web.http.admission import retry_after
from riverui.web.http.context import access, dashboard
from riverui.web.http.error_pages import ErrorShow
from riverui.web.http.request_context import here, is_api, request_context, url
from riverui.web.view import notices

log = logging.getLogger("riverui.web")


class _Words(Struct, frozen=True, kw_only=True):
    status: int
    kind: str
    title: str
    hint: str = ""
    command: str = ""


_WORDS: Mapping[type[Exception], _Words] = {
    BadRequest: _Words(status=400, kind="bad_request", title="Bad request"),
    SignInNeeded: _Words(
        status=401,
        kind="unauthorized",
        title="Sign in",
        hint="Reload the page to enter a user name and password.",
    ),
    Forbidden: _Words(status=403, kind="forbidden", title="Not allowed"),
    NotFound: _Words(status=404, kind="not_found", title="Not found"),
    TooBusy: _Words(status=503, kind="timeout", title="The dashboard is too busy"),
    TooManyAttempts: _Words(status=429, kind="unauthorized", title="Too many attempts"),
    JobRunning: _Words(status=400, kind="conflict", title="The job is running"),
    SignalAttemptMismatch: _Words(status=409, kind="conflict", title="Another attempt"),
    SignalConflict: _Words(status=409, kind="conflict", title="Duplicate signal"),
    UniqueConflict: _Words(status=409, kind="conflict", title="Duplicate of an active job"),
    LoginRefused: _Words(
        status=503,
        kind="login",
        title="Database sign-in failed",
        hint=(
            "Check the user and password in DATABASE_URL (or PGUSER and PGPASSWORD), then restart"
            " riverui."
        ),
    ),
    DatabaseMissing: _Words(
        status=503,
        kind="database",
        title="Database not found",
        hint="Check the database name in DATABASE_URL (or PGDATABASE), or create it, then reload.",
    ),
    DatabaseUnavailable: _Words(
        status=503,
        kind="database",
        title="The database cannot be reached",
        hint=(
            "Check that it is running and that DATABASE_URL is right. This page recovers by itself."
        ),
    ),
    ServerTooOld: _Words(
        status=503,
        kind="database",
        title="The database server is too old",
        hint="Upgrade it, or give riverui another one.",
    ),
    SchemaTooOld: _Words(
        status=503,
        kind="schema",
        title="River's tables are too old",
        command="riverui migrate-up",
    ),
    FileWithoutTables: _Words(
        status=503, kind="schema", title="No River tables yet", command="riverui migrate-up"
    ),
    SchemaMissing: _Words(
        status=503,
        kind="schema",
        title="No River tables yet",
        hint="If they live in a schema of their own, set RIVER_SCHEMA.",
        command="riverui migrate-up",
    ),
    LockTimeout: _Words(
        status=503,
        kind="timeout",
        title="Locked by another transaction",
        hint="Nothing was changed. Try again in a moment.",
    ),
    QueryTimeout: _Words(
        status=503,
        kind="timeout",
        title="Query timed out",
        hint="Narrow the search, or try again in a moment.",
    ),
    PermissionDenied: _Words(
        status=503,
        kind="database",
        title="The database user lacks a privilege",
        hint="Grant it, or start riverui with --read-only.",
    ),
    ReadOnlyDatabase: _Words(
        status=403,
        kind="forbidden",
        title="Read-only database",
    ),
    StandbyConflict: _Words(
        status=503,
        kind="database",
        title="The standby ended this query",
        hint="Try again in a moment.",
    ),
    StandbyLacks: _Words(status=503, kind="database", title="Not available on a standby"),
    NotSupported: _Words(status=501, kind="not_supported", title="Not supported"),
    DatabaseError: _Words(status=503, kind="database", title="The database returned an error"),
}
"""By exception class; the nearest base class wins."""

_STATUS_WORDS: Mapping[int, tuple[str, str]] = {
    404: ("Not found", "There is nothing at this address."),
    405: ("Method not allowed", "This address does not accept that kind of request."),
    413: ("Too large", "The request is too large."),
}

_CLIENT_GONE = 499
"""The status of a request whose client has left: only logs and metrics see it."""

_GO_ON = frozenset({"bad_request", "conflict", "forbidden", "not_found", "timeout"})
"""Kinds of problems whose page links to a list to go on from."""


async def answer(request: Request, error: Exception) -> Response:
    """Return the response for an exception in a form that the client can show; log exceptions that
    the client did not cause.
    """
    if isinstance(error, ClientDisconnect):
        return Response(status_code=_CLIENT_GONE)
    request_id = request_context(request).id
    status, page = error_page(request, error)
    if status == 500:
        log.error("unexpected error", exc_info=error, extra={"id": request_id})
    elif isinstance(error, DatabaseError):
        log.warning("%s", error, extra={"id": request_id, "kind": type(error).__name__})
    headers = _headers(error)
    if is_api(request):
        answer = reply({"message": _message(error, page)}, status=status)
        answer.headers.update(headers)
        return answer
    try:
        return notices.fail(request, page, status=status, headers=headers)
    except Exception:
        # The error page must not depend on what has just failed.
        log.exception("the error page itself failed", extra={"id": request_id})
        text = f"{page.title}\n{page.detail}\n"
        return PlainTextResponse(text, status_code=status, headers=headers)


def error_page(request: Request, error: Exception) -> tuple[int, ErrorShow]:
    """Return status and words for an exception; for an unexpected one only the id of its
    log line.
    """
    request_id = request_context(request).id
    if isinstance(error, HTTPException):
        title, detail = _STATUS_WORDS.get(error.status_code, ("Request failed", ""))
        if error.detail != HTTPStatus(error.status_code).phrase:
            detail = _encodable(error.detail)
        kind = "not_found" if error.status_code == 404 else "bad_request"
        return error.status_code, ErrorShow(
            kind=kind, title=title, detail=detail, request_id=request_id, back=_back(request)
        )
    for known in type(error).__mro__:
        if words := _WORDS.get(known):
            page = ErrorShow(
                kind=words.kind,
                title=words.title,
                detail=f"{_public(error).removeprefix(f'{words.title}.')} {words.hint}".strip(),
                command=words.command,
                request_id=request_id,
                retry_url=_retry_url(request) if words.status == 503 else "",
                back=_back(request) if words.kind in _GO_ON else None,
            )
            return words.status, page
    page = ErrorShow(
        kind="internal",
        title="Something went wrong",
        detail=f"This is a fault in riverui, not yours. See its log for request id {request_id}.",
        request_id=request_id,
        retry_url=_retry_url(request),
    )
    return 500, page


def _message(error: Exception, page: ErrorShow) -> str:
    """Return the message for API clients: the page's text, after its title if the error's own
    message begins with that.
    """
    has_title = isinstance(error, RiveruiError) and _public(error).startswith(f"{page.title}.")
    return f"{page.title}. {page.detail}".strip() if has_title else page.detail or page.title


def _public(error: Exception) -> str:
    return _encodable(error.public if isinstance(error, RiveruiError) else str(error))


def _encodable(text: str) -> str:
    """Return the text with `?` for each half of a surrogate pair, which a response cannot encode:
    an error may repeat unchecked input.
    """
    return text.encode(errors="replace").decode()


def elsewhere(request: Request, response: Response) -> Response:
    """Return the host app's own response; a redirect becomes one of the whole page, as htmx would
    put its target into a region.
    """
    location = response.headers.get("location")
    if location is None or request.headers.get("hx-request") != "true":
        return response
    response.status_code = 401
    del response.headers["location"]
    response.headers["HX-Redirect"] = location
    return response


def _back(request: Request) -> tuple[str, str] | None:
    """Return label and address of the list of the requested section, or else of the first one; None
    if the viewer may not see it.
    """
    asked = request_context(request).route.partition(".")[0]
    lists = {
        section: entry
        for section, entry in dashboard(request).sections.navigation.items()
        if entry.route == f"{section}.index"
    }
    entry = lists.get(asked) or next(iter(lists.values()), None)
    if entry is None or not access(request).may(entry.right):
        return None
    return entry.label, url(request, entry.route)


def _retry_url(request: Request) -> str:
    """Return the requested address if a repeated request changes nothing; else an empty string."""
    return here(request) if request.method == "GET" else ""


def _headers(error: Exception) -> Mapping[str, str]:
    if isinstance(error, SignInNeeded):
        return {"WWW-Authenticate": 'Basic realm="riverui", charset="UTF-8"'}
    if isinstance(error, TooManyAttempts):
        return {"Retry-After": "60"}
    if isinstance(error, TooBusy):
        return {"Retry-After": retry_after()}
    if isinstance(error, DatabaseUnavailable | QueryTimeout):
        return {"Retry-After": "5"}
    if isinstance(error, HTTPException):
        return error.headers or {}
    return {}
