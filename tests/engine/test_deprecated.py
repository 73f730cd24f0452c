"""The old names of client methods warn, and do what the new ones do."""

from __future__ import annotations

import inspect
from operator import attrgetter

import pytest

from riverui import Client, DeadLetterListParams, SyncClient
from riverui.engine.deprecated import DeprecatedMethods, SyncDeprecatedMethods
from riverui.testing import MemoryDatabase


async def test_old_names_warn_and_call_the_new_ones() -> None:
    client = Client(MemoryDatabase())
    with pytest.warns(DeprecationWarning, match=r"use client\.workflows\.new$") as warned:
        assert client.workflow("Order 42", id="42").name == "Order 42"
    assert warned[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"use client\.dead_letters\.list$"):
        assert not (await client.dead_letter_list(DeadLetterListParams(first=1))).jobs
    with (
        SyncClient(MemoryDatabase()) as river,
        pytest.warns(DeprecationWarning, match=r"use client\.dead_letters\.delete_many$"),
    ):
        assert not river.dead_letter_delete_many([1]).changed


@pytest.mark.parametrize(
    ("old", "client"),
    [(DeprecatedMethods, Client(MemoryDatabase())), (SyncDeprecatedMethods, SyncClient(""))],
)
def test_each_old_name_has_the_signature_of_the_new_one(
    old: type, client: Client | SyncClient
) -> None:
    names = [name for name in vars(old) if not name.startswith("_")]
    assert len(names) == 24
    for name in names:
        method = getattr(client, name)
        new = method.__doc__.removeprefix("Deprecated: use `client.").removesuffix("`.")
        assert inspect.signature(method) == inspect.signature(attrgetter(new)(client)), name
