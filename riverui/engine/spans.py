"""Spans of time that several parts of a client use."""

from __future__ import annotations

from datetime import timedelta

NO_LIMIT = timedelta(seconds=-1)
"""River's −1: no timeout, or keep for ever."""

SCHEDULER_INTERVAL = timedelta(seconds=5)
"""How often the leader looks for due jobs (River's figure): a job that is due sooner than that is
made available at once.
"""
