"""Lets the leader evaluate the waits of workflows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.pilot import Feature
from riverui.features.workflows.waits.engine.service import WaitEvaluator


class WorkflowWaits(Feature):
    """Lets tasks of workflows wait for signals, timers and conditions."""

    def __init__(self, *, interval: timedelta) -> None:
        self._interval = interval

    def services(self, context: ServiceContext) -> Sequence[WaitEvaluator]:
        """Return the service that evaluates due waits."""
        return [WaitEvaluator(context, interval=self._interval)]
