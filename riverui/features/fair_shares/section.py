"""What fair shares add to explanations."""

from __future__ import annotations

from riverui.features.fair_shares.explain import SHARE
from riverui.web.http.context import Section

SECTION = Section(name="fair_shares", holds=(SHARE,))
