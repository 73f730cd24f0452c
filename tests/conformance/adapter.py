"""Runs riverui behind River's conformance protocol: JSON-RPC 2.0 on stdin and stdout, one message a
line.

It follows version 18 of River's adapter contract (`conformance/adapter/contract.json` in River's
repository), profiles `postgres-full-v1` and `insert-only-v1`. `candidate.json` describes it to
River's harness; our own scenarios start it in the same way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import psycopg

from riverui.errors import DatabaseError, NotFound, QueueNotFound, RiveruiError
from tests.conformance.methods import ALL_METHODS, CAPABILITIES, FULL, methods_of
from tests.conformance.params import Name
from tests.conformance.process import Adapter, Code, Refused

_LINE_BYTES = 1 << 26  # a request of 6,000 jobs has about one million
logger = logging.getLogger("tests.conformance")


class Request(msgspec.Struct):
    """One line of the harness."""

    id: Any = None
    jsonrpc: str = ""
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")


async def answer(adapter: Adapter, request: Request) -> Any:
    """Return the result of a request."""
    if request.jsonrpc != "2.0":
        raise Refused(Code.INVALID_REQUEST, "jsonrpc must be 2.0")
    if request.method not in methods_of(adapter.profile):
        raise Refused(Code.METHOD_NOT_FOUND, f"there is no method {request.method!r}")
    params_type, function = ALL_METHODS[request.method]
    given = msgspec.json.decode(request.params, type=dict[str, msgspec.Raw])
    transaction: Any = None
    resigns_in_transaction = request.method == "request_resign" and "handle" in given
    if request.method.startswith("tx_") or resigns_in_transaction:
        handle = msgspec.json.decode(given.pop("handle", b"null"), type=Name)
        if request.method == "tx_begin":
            transaction = handle
        else:
            transaction = adapter.transaction(handle)
            if request.method in ("tx_commit", "tx_rollback"):
                del adapter.transactions[handle]
    params = msgspec.json.decode(msgspec.json.encode(given), type=params_type)
    return await function(adapter, params, transaction)


def code_of(error: Exception) -> Code:
    """Return the contract's code for an error."""
    match error:
        case Refused():
            return error.code
        case msgspec.MsgspecError():
            return Code.INVALID_PARAMS
        case NotFound() | QueueNotFound():
            return Code.NOT_FOUND
        case DatabaseError() | psycopg.Error():
            return Code.DATABASE_ERROR
        case RiveruiError() | ValueError():
            return Code.REJECTED
        case _:
            logger.error("a request failed", exc_info=error)
            return Code.INTERNAL


async def serve(
    answer: Callable[[Request], Awaitable[Any]], code_of: Callable[[Exception], int]
) -> None:
    """Answer the lines of standard input until its end."""
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        response = await _respond(line, answer, code_of)
        print(json.dumps(response, separators=(",", ":")), flush=True)


async def _respond(
    line: bytes,
    answer: Callable[[Request], Awaitable[Any]],
    code_of: Callable[[Exception], int],
) -> dict[str, Any]:
    """Return the response to one line."""
    response: dict[str, Any] = {"id": None, "jsonrpc": "2.0"}
    try:
        request = msgspec.json.decode(line, type=Request)
    except msgspec.MsgspecError as error:
        return {**response, "error": {"code": Code.PARSE_ERROR, "message": str(error)}}
    response["id"] = request.id
    try:
        return {**response, "result": await answer(request) or {}}
    except Exception as error:
        return {**response, "error": {"code": code_of(error), "message": str(error)}}


async def main() -> None:
    """Answer requests until the end of input."""
    name = os.environ.get("RIVER_CONFORMANCE_APPLICATION_NAME", "river-conformance-python")
    profile = os.environ.get("RIVER_CONFORMANCE_PROFILE") or FULL
    if profile not in CAPABILITIES:
        raise SystemExit(f"the profile {profile!r} is not supported")
    adapter = Adapter(os.environ["RIVER_CONFORMANCE_DATABASE_URL"], name, profile)
    async with adapter.opened():
        await serve(partial(answer, adapter), code_of)
    if asyncio.all_tasks() - {asyncio.current_task()}:
        # A job that ignores its cancellation would keep the process.
        os._exit(0)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    asyncio.run(main())
