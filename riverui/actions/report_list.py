"""What features add to the reports of pages, API and command line: why a job waits, and marks.

A list of its own, as the commands do without pages.
"""

from __future__ import annotations

from typing import Any

from riverui.actions.explain import JobHold
from riverui.features.concurrency.explain import LIMIT
from riverui.features.fair_shares.explain import SHARE
from riverui.features.marks.reader import Marks
from riverui.features.rate_limits.explain import RATE
from riverui.features.sequences.explain import SEQUENCE
from riverui.features.workflows.explain import WORKFLOW

HOLDS: tuple[JobHold[Any], ...] = (WORKFLOW, SEQUENCE, LIMIT, RATE, SHARE)
"""The features' reasons why a job is not running, in the order of the explanation."""

MARKS = Marks
"""Makes the reader of marks, such as deploys, from a driver."""
