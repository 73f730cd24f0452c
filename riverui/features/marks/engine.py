"""Marks the release that a client runs, so that charts show when it was deployed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from riverui.engine.client_context import ClientContext
from riverui.engine.pilot import Feature
from riverui.errors import DatabaseError
from riverui.features.marks.verbs import mark_insert_release


class ReleaseMarks(Feature):
    """Marks a client's `release`; the first client that starts with it makes the mark."""

    def client_services(self, client: ClientContext) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the service that makes the mark, once; nothing without a release."""
        if not client.config.release:
            return {}

        async def mark() -> None:
            try:
                made = await mark_insert_release(
                    client.driver, client.config.release, client=client.id
                )
            except DatabaseError as error:
                # A missing mark must not stop the client.
                client.logger.info("the release could not be marked: %s", error)
            else:
                if made is not None:
                    client.logger.info("marked the release %s", made.label)

        return {"release mark": mark}
