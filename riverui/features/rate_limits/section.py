"""What rate limits add to explanations."""

from __future__ import annotations

from riverui.features.rate_limits.explain import RATE
from riverui.web.http.context import Section

SECTION = Section(name="rate_limits", holds=(RATE,))
