"""Spans of time that several parts of a client have in common."""

from __future__ import annotations

from datetime import timedelta

NO_LIMIT = timedelta(seconds=-1)
"""River's −1: no timeout, or keep for ever."""

SCHEDULER_INTERVAL = timedelta(seconds=5)
"""How often the leader looks for jobs that are due (River's figure): an outcome makes a job
available at once where it is due sooner than that.
"""
