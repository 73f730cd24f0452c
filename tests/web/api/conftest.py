"""A program that speaks to the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from httpx2 import AsyncClient
from starlette.applications import Starlette

from tests.web.conftest import app, dashboard_limits, reader
from tests.web.stand_ins import browser

__all__ = ["app", "dashboard_limits", "reader"]

Get = Callable[..., Awaitable[Any]]


@pytest.fixture
async def api(app: Starlette) -> AsyncIterator[AsyncClient]:
    """Yield a client of the API, which is no browser."""
    async with browser(app, base_url="http://river.test/api/") as client:
        yield client


@pytest.fixture
def get(api: AsyncClient) -> Get:
    """Return what an address answers, once its status is as expected."""

    async def get(path: str, status: int = 200, **params: Any) -> Any:
        answer = await api.get(path, params=params or None)
        assert answer.status_code == status, answer.text[:2000]
        assert answer.headers["content-type"].startswith("application/json")
        return answer.json()

    return get
