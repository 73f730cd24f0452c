"""Explanations of jobs, for tests of the checks that they are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from psycopg import AsyncConnection

from riverui.actions.explain import job_explain
from riverui.actions.report_list import HOLDS
from riverui.domain.explain.explanation import CHECKS, explain
from riverui.domain.explain.facts import Hold, JobFacts
from riverui.domain.findings import Diagnosis, Finding, Result, Unread
from riverui.domain.partitions import Partition
from riverui.domain.queues import QueueTerms
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface import Driver
from tests.domain.anything import UNREAD, anything
from tests.factory import job
from tests.health_facts import NOW

PASSED, FAILED, UNKNOWN = Result.PASSED, Result.FAILED, Result.UNKNOWN
BY_TENANT = Partition(by_args=("tenant",))
Connection = AsyncConnection[Any]
Register = Callable[..., Awaitable[ClientLife]]


async def explained(driver: Driver, job_id: int) -> Diagnosis:
    found = await job_explain(driver, job_id, HOLDS)
    assert found is not None
    assert found[0].id == job_id
    return found[1]


def results(explanation: Diagnosis) -> Mapping[str, Result]:
    return {check.name: check.result for check in explanation.checks}


async def checks(driver: Driver, job_id: int) -> Mapping[str, Finding]:
    """Return the checks of a job by name."""
    return {check.name: check for check in (await explained(driver, job_id)).checks}


async def tenant(
    connection: Connection, name: str, state: str = "available", **columns: Any
) -> int:
    return await job(connection, state, args={"tenant": name}, **columns)


def any_facts(hold: Hold[Any], found: st.SearchStrategy[Any]) -> st.SearchStrategy[JobFacts]:
    """Return any facts around a job that a feature may hold."""
    holds = st.fixed_dictionaries({}, optional={hold: st.just(UNREAD) | found})
    return anything(JobFacts, now=st.just(NOW), terms=st.just(QueueTerms()), holds=holds)


def holds_together(facts: JobFacts) -> None:
    """Check what is true of every explanation."""
    found = explain(facts)
    failed = [check.evidence for check in found.checks if check.result is FAILED]
    assert (found.headline in failed[:1]) is bool(failed)
    assert found.headline.endswith(".")
    assert (found.result is FAILED) is bool(failed)
    names = [check.name for check in found.checks]
    assert names[0] == "state"
    assert len(set(names)) == len(names) <= len(CHECKS) + len(facts.holds)
    for check in found.checks:
        assert check.label
        assert check.evidence.endswith("."), check
    # Nothing passes that was not measured.
    needs = {
        "paused": facts.queue,
        "leader": facts.leader,
        "lock": facts.lock,
        "line": facts.line,
        "priority": facts.line,
        "slots": facts.work,
        **{hold.name: fact for hold, fact in facts.holds.items()},
    }
    for name, fact in needs.items():
        if isinstance(fact, Unread):
            assert results(found).get(name, UNKNOWN) is UNKNOWN
    if isinstance(facts.work, Unread):
        assert results(found).get("kind") is not PASSED
        if isinstance(facts.queue, Unread):
            assert results(found).get("served", UNKNOWN) is UNKNOWN
