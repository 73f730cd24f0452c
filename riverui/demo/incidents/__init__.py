"""Incidents that the demo plays, `riverui demo --incident NAME`: one file each."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.demo.incidents import (
    all_paused,
    bad_deploy,
    calm,
    dead_worker,
    flood_of_one_kind,
    leaderless,
    long_transaction,
    nightly_batch,
    nobody_works,
    poison_job,
    quiet_night,
    retry_storm,
    slow_dependency,
)
from riverui.demo.incidents.incident import Incident

INCIDENTS: Mapping[str, Incident] = {
    module.INCIDENT.name: module.INCIDENT
    for module in (
        dead_worker,
        all_paused,
        nobody_works,
        leaderless,
        slow_dependency,
        bad_deploy,
        flood_of_one_kind,
        poison_job,
        retry_storm,
        long_transaction,
        calm,
        nightly_batch,
        quiet_night,
    )
}
"""By name; those in which nothing is wrong come last."""
