"""What tests of the database's checks share: a finding by its name, and its statement as a person
runs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from riverui.domain.findings import Finding
from riverui.features.database.domain.report import report
from riverui.features.database.reader import database_facts
from riverui.storage.connect import connect

Look = Callable[..., Awaitable[Finding]]


async def look(url: str, name: str, *, after: timedelta = timedelta(0)) -> Finding:
    """Return what a check finds, as if this time had passed since the facts were read."""
    driver = connect(url)
    try:
        facts = await database_facts(driver)
    finally:
        await driver.close()
    found = report(replace(facts, now=facts.now + after)).findings
    return next(each for each in found if each.name == name)


@pytest.fixture
def found(database_url: str) -> Look:
    """Return what finds something on this test's database."""

    async def finding(name: str, **given: Any) -> Finding:
        return await look(database_url, name, **given)

    return finding


def mend(url: str, finding: Finding) -> None:
    """Run the statements of a finding, each by itself as psql does."""
    assert finding.statement
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in finding.statement.split(";\n"):
            connection.execute(statement.encode())
