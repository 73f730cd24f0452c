"""What limits of jobs at once add to explanations."""

from __future__ import annotations

from riverui.features.concurrency.explain import LIMIT
from riverui.web.http.context import Section

SECTION = Section(name="concurrency", holds=(LIMIT,))
