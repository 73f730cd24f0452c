"""Queues and kinds in the palette."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request

from riverui.storage.interface.params import Field
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url
from riverui.web.search.suggestions import SUGGESTIONS
from riverui.web.view.contributions import MAX_SOURCE, PaletteEntry


def named(
    field: Field, route: str, parameter: str, icon: str
) -> Callable[[Request, str], Awaitable[Sequence[PaletteEntry]]]:
    """Return what finds names of a field, which lead to a route with the name as its parameter."""

    async def find(request: Request, text: str) -> Sequence[PaletteEntry]:
        names = await dashboard(request).get(SUGGESTIONS).names(field, text)
        return [
            PaletteEntry(
                label=name,
                url=url(request, route, **{parameter: name}),
                icon=icon,
                hint=field.value,
            )
            for name in names[:MAX_SOURCE]
        ]

    return find
