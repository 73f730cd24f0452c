"""CEL expressions in a process of their own: correct, limited, with errors reported."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from riverui.errors import WaitInvalid
from riverui.features.workflows.waits.domain import (
    AnyTerm,
    SignalTerm,
    Term,
    TimerTerm,
    Wait,
    task_finalized_at,
)
from riverui.features.workflows.waits.expressions import ExpressionLimits, Expressions, check_wait
from riverui.features.workflows.waits.expressions.check import FUNCTIONS

STOPPED = "and was stopped"
ROWS = json.dumps({"l": list(range(2000))})
SLOW = "l.all(x, l.all(y, l.all(z, x + y + z >= 0)))"


@pytest.fixture(scope="module")
def expressions() -> Iterator[Expressions]:
    with Expressions(ExpressionLimits(one_seconds=0.3, many_seconds=0.2)) as found:
        yield found


@pytest.mark.parametrize(
    ("text", "context", "value"),
    [
        ("payload.amount > 2", {"payload": {"amount": 3}}, True),
        ("payload.amount == 3.0", {"payload": {"amount": 3}}, True),
        ("has(payload.by) && payload.by == 'ada'", {"payload": {}}, False),
        ("payload == null || payload.x", {"payload": None}, True),
        ("payload.big == 1970670598291982290", {"payload": {"big": 1970670598291982290}}, True),
        ("payload.big > 1.0", {"payload": {"big": 10**30}}, True),
        ("approved || (late && !paid)", {"approved": False, "late": True, "paid": False}, True),
        ("deps['ä b'].output.items.exists(i, i.ok)", {"deps": {"ä b": {"output": {}}}}, False),
        ("size(signals['k']) == 2 && signals['k'][1].id == 7", {"signals": {"k": [1, 2]}}, False),
        ("key.matches('^a(b|c)*$')", {"key": "abcbc"}, True),
    ],
)
def test_what_expressions_give(
    expressions: Expressions, text: str, context: object, value: bool
) -> None:
    assert expressions.evaluate_now([text], [json.dumps(context)]).values == [[value]]


def test_times_are_times(expressions: Expressions) -> None:
    contexts = [
        '{"created_at": "2026-11-22T12:00:00+00:00", "timers": {"a": {"fire_at": null}}}',
        '{"created_at": "2026-11-21T12:00:00+00:00", "timers": {}}',
    ]
    found = expressions.evaluate_now(
        ["created_at > timestamp('2026-11-22T00:00:00Z') && created_at.getHours() == 12"],
        contexts,
        [["created_at"], ["timers", "*", "fire_at"]],
    )
    assert found.values == [[True], [False]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("payload.missing == 1", "there is no 'missing'"),
        ("payload.a + 'x' == 'x'", "int"),
        ("payload.a", "neither true nor false"),
        ("1 / 0 == 1", "zero"),
        ("payload.a &&", "parse"),
        ("(" * 4096, "parse"),
    ],
)
def test_what_is_wrong_is_told_and_false(expressions: Expressions, text: str, words: str) -> None:
    found = expressions.evaluate_now([text, "true"], ['{"payload": {"a": 1}}'])
    assert found.values == [[False, True]]
    assert found.errors[1] is None
    assert words in (found.errors[0] or "").lower()
    assert len(found.errors[0] or "") <= 300


def test_one_that_takes_too_long_is_stopped_and_the_others_are_not(
    expressions: Expressions,
) -> None:
    found = expressions.evaluate_now([SLOW], ['{"l": [1]}', ROWS, '{"l": [2]}'])
    assert found.values == [[True], [False], [True]]
    assert STOPPED in (found.errors[0] or "")


def test_after_a_few_that_were_stopped_the_rest_is_left_for_later(expressions: Expressions) -> None:
    contexts = ['{"l": [1]}', *[ROWS] * 40, '{"l": [2]}']
    found = expressions.evaluate_now([SLOW], contexts)
    assert found.values == [[True], [False], [False], [False]]
    assert STOPPED in (found.errors[0] or "")


def test_one_that_needs_too_much_memory_is_stopped(expressions: Expressions) -> None:
    text = "s"
    for _ in range(25):
        text = f"[s + s].map(s, {text})[0]"
    context = json.dumps({"s": "a" * 1_000_000})
    found = expressions.evaluate_now([f"{text} == ''"], [context])
    assert found.values == [[False]]
    assert STOPPED in (found.errors[0] or "")
    assert expressions.evaluate_now(["true"], ["{}"]).values == [[True]]


def test_values_nested_thousands_deep_are_refused(expressions: Expressions) -> None:
    deep = f'{{"payload": {"[" * 100_000}{"]" * 100_000}}}'
    found = expressions.evaluate_now(["size(payload) == 1"], [deep, '{"payload": [1]}'])
    assert found.values == [[False], [True]]
    assert "deeply" in (found.errors[0] or "")


def test_many_are_answered_in_parts() -> None:
    contexts = [json.dumps({"l": list(range(300))})] * 40
    with Expressions(ExpressionLimits(many_seconds=0.01)) as expressions:
        found = expressions.evaluate_now(["l.all(x, l.all(y, x + y >= 0))"], contexts)
    assert found.values == [[True]] * 40
    assert found.errors == [None]


async def test_the_event_loop_goes_on_meanwhile() -> None:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    with Expressions(ExpressionLimits(one_seconds=0.8)) as expressions:
        await expressions.evaluate(["true"], ["{}"])
        watching = asyncio.create_task(watch())
        found = await expressions.evaluate([SLOW], [ROWS])
        watching.cancel()
    assert STOPPED in (found.errors[0] or "")
    assert longest < 0.5


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (Wait("a &&", [SignalTerm("a", "k")]), "the wait is not CEL"),
        (Wait("a || b", [SignalTerm("a", "k")]), "the unknown name 'b'. The known names are a"),
        (Wait("a", [SignalTerm("a", "k", "deps.x")]), "of term 'a' uses the unknown name 'deps'"),
        (
            Wait("a", [Term("a", "payload.x")]),
            "the unknown name 'payload'. The known names are deps, signals",
        ),
        (Wait("a", [Term("a", "(" * 4000)]), "is not CEL"),
        (
            Wait("a && now()", [SignalTerm("a", "k")]),
            "the unknown function 'now'. The known functions are all, bytes, ",
        ),
        (
            Wait("a", [SignalTerm("a", "k", "key.trim() == ''")]),
            "of term 'a' calls the unknown function 'trim'",
        ),
        (
            Wait("a", [SignalTerm("a", "k", "[1].exists(x, _f(x))")]),
            "of term 'a' calls the unknown function '_f'",
        ),
        (
            Wait("a", [TimerTerm("a", after=timedelta(1), since=task_finalized_at("x"))]),
            "not one of the task's dependencies",
        ),
    ],
)
def test_a_wait_is_looked_at_before_it_is_inserted(wait: Wait, words: str) -> None:
    with pytest.raises(WaitInvalid, match=words):
        check_wait(wait, ["y"])


def test_each_function_that_a_wait_may_call_is_there(expressions: Expressions) -> None:
    calls = {
        **{name: f"[1].{name}(x, true)" for name in ("all", "exists", "exists_one", "filter")},
        **{name: f"'a'.{name}('a')" for name in ("contains", "endsWith", "matches", "startsWith")},
        **{name: f"{name}('1')" for name in ("bytes", "dyn", "int", "size", "string", "type")},
        "double": "double(1)",
        "duration": "duration('1h')",
        "has": "has({'a': 1}.a)",
        "map": "[1].map(x, x)",
        "timestamp": "timestamp('2020-01-01T00:00:00Z')",
        "uint": "uint(1)",
    }
    programs = []
    for name in FUNCTIONS.split(", "):
        call = calls.get(name, f"timestamp('2020-01-01T00:00:00Z').{name}()")
        programs.append(f"dyn({call}) != null")
        check_wait(Wait("a", [Term("a", programs[-1])]), [])
    found = expressions.evaluate_now([*programs, "nothing() != null"], ["{}"])
    assert [error for error in found.errors[:-1] if error is not None] == []
    assert "Undefined" in (found.errors[-1] or "")


def test_a_good_wait_passes() -> None:
    terms: list[AnyTerm] = [
        SignalTerm("a", "k", "payload.ok && attempt == 1 && id > 0 && key != '' && source == null"),
        Term("b", "signals['k'].exists(s, s.payload.ok) || timers['c'].fired || workflow.id == ''"),
        TimerTerm("c", after=timedelta(1), since=task_finalized_at("y")),
    ]
    check_wait(Wait("a && (b || !c)", terms), ["x", "y"])


def test_a_process_that_is_not_asked_ends_and_another_begins() -> None:
    with Expressions(ExpressionLimits(idle_seconds=0.05)) as expressions:
        for _ in range(2):
            assert expressions.evaluate_now(["true"], ["{}"]).values == [[True]]
            until = time.monotonic() + 20
            while expressions.running:
                assert time.monotonic() < until
                time.sleep(0.01)
