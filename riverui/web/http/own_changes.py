"""Show viewers their own changes at once when pages are read from a standby, whichever
process answers.
"""

from __future__ import annotations

import time
from urllib.parse import quote

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.web.http.cookies import cookie_name, set_cookie
from riverui.web.http.gate import SAFE_METHODS
from riverui.web.http.read_replica import ReadReplica, on_primary
from riverui.web.http.request_context import PATH_SAFE, own_path

_PURPOSE = "changed"
"""The suffix of the cookie's name, and the salt of its signature."""
_REFUSED = 400
"""Responses from this status on mean that nothing was changed."""
_MARGIN_SECONDS = 1.0
"""Seconds added to the time of a change: it is signed in whole seconds, and the clocks of two
machines differ.
"""


class OwnChanges:
    """Note in a cookie that its viewer has changed something, for as long as that matters, and read
    from the primary what is about to be changed.

    This process knows its own changes without it, for all viewers.
    """

    def __init__(
        self, app: ASGIApp, *, replica: ReadReplica, signer: URLSafeTimedSerializer
    ) -> None:
        self._app = app
        self._replica = replica
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, and set the cookie if something was changed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        base = quote(own_path(scope)[0], safe=PATH_SAFE)
        request = HTTPConnection(scope)
        self._learn(request.cookies.get(cookie_name(request, _PURPOSE, base=base), ""))
        if scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < _REFUSED:
                self._replica.changed()
                kept = Response()
                value = str(self._signer.dumps("", salt=_PURPOSE))
                set_cookie(request, kept, _PURPOSE, value, max_age=self._seconds, base=base)
                MutableHeaders(scope=message).append("set-cookie", kept.headers["set-cookie"])
            await send(message)

        with on_primary():
            await self._app(scope, receive, send_with_cookie)

    @property
    def _seconds(self) -> int:
        return round(self._replica.times.changed)

    def _learn(self, cookie: str) -> None:
        """Note a change made in another process; a cookie that is old or not ours is ignored."""
        if not cookie:
            return
        try:
            _, at = self._signer.loads(
                cookie, max_age=self._seconds, return_timestamp=True, salt=_PURPOSE
            )
        except BadData:
            return
        ago = time.time() - at.timestamp() - _MARGIN_SECONDS
        self._replica.changed(seconds_ago=ago)
