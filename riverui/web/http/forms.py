"""Parse posted forms and bodies, with limits: url-encoded fields only."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from riverui.errors import BadRequest

BODY_BYTES = 1024 * 1024
"""Bytes of a body: a thousand ids take some 20,000."""
FIELDS = 2_000
"""Fields of a form: a thousand ids, and some."""
SECONDS = 30
"""Time within which a body has to arrive."""

Form = ImmutableMultiDict[str, str]


async def form(request: Request) -> Form:
    """Return the posted fields. Raise BadRequest for any other content, HTTPException
    (413) above 1 MiB.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadRequest("This form must be sent as application/x-www-form-urlencoded.")
    text = await body(request)
    try:
        pairs = parse_qsl(
            text.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS
        )
    except UnicodeDecodeError:
        raise BadRequest("The form is not valid UTF-8.") from None
    except ValueError:
        raise BadRequest(f"The form has more than {FIELDS:,} fields.") from None
    if any("\0" in value or "\0" in key for key, value in pairs):
        raise BadRequest("The form holds a NUL character, which Postgres cannot store.")
    return ImmutableMultiDict(pairs)


async def body(request: Request) -> bytes:
    """Return the posted body. Raise BadRequest if it was cut off, HTTPException (413)
    above 1 MiB.
    """
    read = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for chunk in request.stream():
                read += chunk
                if len(read) > BODY_BYTES:
                    raise HTTPException(413, f"The request is larger than {BODY_BYTES:,} bytes.")
    except (ClientDisconnect, TimeoutError):
        raise BadRequest("The request was cut off.") from None
    return bytes(read)
