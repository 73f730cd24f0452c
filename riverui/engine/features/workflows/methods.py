"""What a client offers for workflows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from riverui.domain.ulid import ulid
from riverui.engine.features.workflows.builder import IgnoredDeps, Workflow

if TYPE_CHECKING:
    from riverui.engine.pilot import Pilot
    from riverui.storage.interface import Driver


class WorkflowMethods:
    """The methods of a Client that are about workflows."""

    clock: Callable[[], datetime]
    driver: Driver
    pilot: Pilot
    insert_many: Any
    insert_many_tx: Any

    def workflow(
        self,
        name: str = "",
        *,
        id: str | None = None,
        ignore_cancelled_deps: bool = False,
        ignore_discarded_deps: bool = False,
        ignore_deleted_deps: bool = False,
    ) -> Workflow:
        """Return a new workflow to add tasks to; nothing is written before it is inserted.

        Its id is a ULID unless given. What is ignored of dependencies that fail counts as success
        in each task that does not say otherwise; other tasks are cancelled.
        """
        ignored = IgnoredDeps(
            cancelled=ignore_cancelled_deps,
            discarded=ignore_discarded_deps,
            deleted=ignore_deleted_deps,
        )
        return Workflow(id or ulid(self.clock()), name, ignored=ignored).bound(self)
