"""Waits of tasks: their JSON form, messages and timers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from riverui.errors import InsertError, WaitInvalid
from riverui.features.workflows.waits.domain import (
    LONGEST,
    SignalTerm,
    Term,
    TimerTerm,
    Wait,
    WaitMoments,
    fire_at,
    pending_reason,
    phase,
    task_finalized_at,
)

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
APPROVED = SignalTerm("approved", "approval", "payload.ok", "Approved by finance", 2)
LATE = TimerTerm("late", after=timedelta(hours=1), label="An hour has gone by")
WAIT = Wait(
    "approved || late",
    [
        APPROVED,
        LATE,
        TimerTerm("at_noon", NOON),
        TimerTerm("after_pack", after=timedelta(seconds=1), since=task_finalized_at("päck")),
        Term("paid", 'deps["charge"].output.paid'),
        SignalTerm("other", "approval"),
    ],
)


def test_a_wait_is_written_and_read_again() -> None:
    assert Wait.from_object(json.loads(WAIT.to_json())) == WAIT
    assert WAIT.signal_keys == ["approval"]
    assert WAIT.anchors == ["päck"]


def test_its_form_is_the_one_that_river_ui_reads() -> None:
    assert json.loads(Wait("approved || late", [APPROVED, LATE]).to_json()) == {
        "expr": "approved || late",
        "terms": [
            {"name": "approved", "kind": "signal", "label": "Approved by finance",
             "expr": "payload.ok", "signal_key": "approval", "required_count": 2},
            {"name": "late", "kind": "timer", "label": "An hour has gone by",
             "timer": {"name": "late", "after_us": 3_600_000_000,
                       "anchor": {"kind": "wait_started_at"}}},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Wait("a"), "at least one term"),
        (lambda: Wait("", [APPROVED]), "expression is empty"),
        (lambda: Wait("a" * 4097, [APPROVED]), "4,097 characters"),
        (lambda: Wait("a", [APPROVED, APPROVED]), "Two terms are named 'approved'"),
        (lambda: Wait("a", [SignalTerm(f"t{n}", "k") for n in range(51)]), "50 terms"),
        (lambda: Wait("a", [Term("payload", "1")]), "has a meaning"),
        (lambda: Wait("a", [Term("1st", "1")]), "cannot name a term"),
        (lambda: Wait("a", [Term("a" * 65, "1")]), "cannot name a term"),
        (lambda: Wait("a", [Term("a", " ")]), "expression is empty"),
        (lambda: Wait("a", ["approved"]), "is not a term"),  # type: ignore[list-item]
        (lambda: Wait("a", [SignalTerm("a", "")]), "signal key is empty"),
        (lambda: Wait("a", [SignalTerm("a", "k" * 201)]), "201 characters"),
        (lambda: Wait("a", [SignalTerm("a", "\0")]), "cannot store"),
        (lambda: Wait("a", [SignalTerm("a", "\ud800")]), "cannot store"),
        (lambda: Wait("a", [SignalTerm("a", 7)]), "is not a text"),  # type: ignore[arg-type]
        (lambda: Wait("a", [SignalTerm("a", "k", required_count=0)]), "required_count"),
        (lambda: Wait("a", [SignalTerm("a", "k", required_count=True)]), "required_count"),
        (lambda: Wait("a", [TimerTerm("a")]), "either at"),
        (lambda: Wait("a", [TimerTerm("a", NOON, timedelta(1))]), "either at"),
        (lambda: Wait("a", [TimerTerm("a", datetime(2026, 1, 1))]), "time zone"),  # noqa: DTZ001
        (lambda: Wait("a", [TimerTerm("a", datetime.max.replace(tzinfo=UTC))]), "years 2 and 9998"),
        (lambda: Wait("a", [TimerTerm("a", after=timedelta(-1))]), "span from zero"),
        (lambda: Wait("a", [TimerTerm("a", after=timedelta.max)]), "span from zero"),
        (
            lambda: Wait("a", [TimerTerm("a", after=LONGEST, since="now")]),  # type: ignore[arg-type]
            "'now'",
        ),
        (
            lambda: Wait("a", [Term(f"t{n}", "x" * 4000) for n in range(20)]),
            "65,536 bytes",
        ),
    ],
)
def test_what_is_wrong_is_told_in_words(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(WaitInvalid, match=words) as raised:
        make()
    assert isinstance(raised.value, InsertError)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(
    _JSON
    | st.fixed_dictionaries(
        {
            "expr": _JSON,
            "terms": st.lists(
                st.fixed_dictionaries(
                    {"name": st.just("a") | _JSON},
                    optional={
                        "kind": st.sampled_from(["signal", "timer", "generic"]) | _JSON,
                        "signal_key": _JSON,
                        "required_count": _JSON,
                        "expr": _JSON,
                        "label": _JSON,
                        "timer": st.fixed_dictionaries(
                            {}, optional={"fire_at": _JSON, "after_us": _JSON, "anchor": _JSON}
                        )
                        | _JSON,
                    },
                ),
                max_size=3,
            ),
        }
    )
)
def test_of_whatever_stands_in_metadata_comes_a_wait_or_words(value: Any) -> None:
    try:
        found = Wait.from_object(value)
    except WaitInvalid:
        return
    assert Wait.from_object(json.loads(found.to_json())) == found


def test_when_timers_fire() -> None:
    moments = WaitMoments(
        started_at=NOON,
        workflow_created_at=NOON - timedelta(days=1),
        finalized_at={"pack": NOON - timedelta(hours=1)},
    )
    hour = timedelta(hours=1)
    assert fire_at(TimerTerm("a", NOON), moments) == NOON
    assert fire_at(TimerTerm("a", after=hour), moments) == NOON + hour
    of_workflow = TimerTerm("a", after=hour, since="workflow_created_at")
    assert fire_at(of_workflow, moments) == NOON + hour - timedelta(days=1)
    assert fire_at(TimerTerm("a", after=hour, since=task_finalized_at("pack")), moments) == NOON
    assert fire_at(TimerTerm("a", after=hour, since=task_finalized_at("gone")), moments) is None
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert '"fire_at":"2026-11-22T12:00:00Z"' in Wait("a", [TimerTerm("a", elsewhere)]).to_json()


def test_how_far_a_wait_is() -> None:
    assert phase(None) == phase({}) == "not_started"
    assert phase({"started_at": "2026-11-22T12:00:00Z"}) == "waiting"
    assert phase({"started_at": "x", "resolved_at": "y"}) == "resolved"
    assert phase("x") == "unknown"  # type: ignore[arg-type]
    assert pending_reason(dependencies=True, wait=True) == "dependencies_and_wait"
    assert pending_reason(dependencies=True, wait=False) == "dependencies"
    assert pending_reason(dependencies=False, wait=True) == "wait"
    assert pending_reason(dependencies=False, wait=False) == "none"
