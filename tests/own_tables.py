"""The tables of riverui's own, for tests that look at what stands in them."""

from __future__ import annotations

from riverui.storage.migrations import migration_sql
from riverui.storage.postgres.driver import MIGRATIONS

OWN_TABLES = "\n".join(step.sql for step in migration_sql(MIGRATIONS, "riverui")).encode()
"""Makes them, without a record."""
