"""River Pro's paths: periodic jobs, producers, workflows. They need its tables."""

from __future__ import annotations

from riverui.features.workflows.section import periodic_jobs, signals_api, task_waits, workflows

ENDPOINTS = (
    *periodic_jobs.ENDPOINTS,
    *workflows.ENDPOINTS,
    *task_waits.ENDPOINTS,
    signals_api.ENDPOINT,
    workflows.SHOW,
)
"""The section's part of the API."""
