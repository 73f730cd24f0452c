"""Fetches only jobs that this client can work: River's FetchOnlyKnownKinds."""

from __future__ import annotations

from riverui.engine.pilot import Feature
from riverui.engine.work.workers import Workers
from riverui.storage.interface.engine_params import JobFetchParams


class FetchOnlyKnownKinds(Feature):
    """Leaves jobs of kinds for which this client has no worker to other clients.

    Enabled unless `ClientConfig.fetch_only_known_kinds` is off.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def fetch_params(self, params: JobFetchParams) -> JobFetchParams:
        """Return the params with the kinds that have a worker when the producer starts."""
        return params._replace(kinds=tuple(sorted(self._workers.kinds)))
