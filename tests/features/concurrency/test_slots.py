"""Slots that a client has borrowed, as it counts them."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.features.concurrency.engine.slots import Slots


async def test_what_was_lent_unknown_to_the_client_goes_back() -> None:
    """As where the answer to a statement that borrows was lost."""
    lent = {"known": 1, "more": 3, "unknown": 1}

    async def lend(wanted: Mapping[str, int]) -> Mapping[str, int]:
        lent.update(wanted)
        return wanted

    slots = Slots()
    slots.lent({"known": 1, "more": 1})
    slots.use("known")
    slots.use("more")
    slots.compare(lent)
    assert set(slots.unsure) == {"more", "unknown"}
    await slots.give_back_idle(lend)
    assert lent == {"known": 1, "more": 1, "unknown": 0}
    assert not slots.unsure
    assert slots.keys == {"known", "more"}
