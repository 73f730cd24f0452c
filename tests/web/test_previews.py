"""The args in a list: what tells a job from those around it comes first, whatever the args are."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from riverui.domain.jobs import JobListRow, JobState
from riverui.web.view.previews import args_previews

NOW = datetime(2026, 11, 21, 14, 2, 11, tzinfo=UTC)


def row(args: Any, kind: str = "mail_send") -> JobListRow:
    """Return a row of a list; args that are text stand as they are."""
    return JobListRow(
        id=1,
        state=JobState.AVAILABLE,
        attempt=0,
        max_attempts=25,
        attempted_at=None,
        created_at=NOW,
        finalized_at=None,
        scheduled_at=NOW,
        priority=1,
        args_preview=args if isinstance(args, str) else json.dumps(args, ensure_ascii=False),
        kind=kind,
        queue="default",
        tags=(),
        last_error=None,
    )


def test_what_differs_between_the_rows_of_a_kind_comes_first() -> None:
    shown = args_previews(
        [
            row({"template": "welcome", "locale": "de", "to": "a@b.example"}),
            row({"template": "welcome", "locale": "de", "to": "c@d.example"}),
            # Another kind is no measure for these two.
            row({"template": "goodbye", "locale": "fr", "to": "a@b.example"}, kind="mail_check"),
            row({"template": "welcome", "locale": "de", "to": "e@f.example"}),
        ]
    )
    assert shown[0] == "to: a@b.example, template: welcome, locale: de"
    assert shown[1] == "to: c@d.example, template: welcome, locale: de"
    assert shown[2] == "template: goodbye, locale: fr, to: a@b.example"


def test_what_differs_in_each_row_comes_before_what_differs_in_some() -> None:
    rows = [row({"plan": "team" if n % 5 else "solo", "seat": f"s{n}"}) for n in range(10)]
    assert args_previews(rows)[1] == "seat: s1, plan: team"


def test_ids_and_short_values_come_before_long_ones() -> None:
    (shown,) = args_previews(
        [
            row(
                {
                    "body": "x" * 200,
                    "sizes": [{"w": 1}],
                    "reason": "new",
                    "customer_id": 42,
                    "order": {"id": 7},
                }
            )
        ]
    )
    assert shown == f"customer_id: 42, order.id: 7, reason: new, body: {'x' * 60}…, sizes: [1]"


def test_values_read_as_they_were_written() -> None:
    (shown,) = args_previews(
        [
            row(
                '{"n": 12345678901234567890, "f": 1.10, "t": true, "z": null, "e": {}, "l": ["a",'
                " 2, null, 3]}"
            )
        ]
    )
    assert shown == "n: 12345678901234567890, f: 1.10, t: true, z: null, e: {0}, l: [a, 2, null, …]"


def test_a_key_that_some_rows_lack_tells_something() -> None:
    shown = args_previews([row({"a": 1, "retry_of": 7}), row({"a": 1}), row({"a": 1})])
    assert shown == ["retry_of: 7, a: 1", "a: 1", "a: 1"]


@pytest.mark.parametrize(
    "args",
    [
        *("{}", "[]", "null", "12", '"text"', "…", "", '{"cut": "off he', "[" * 900, '{"a":' * 900),
        f'{{"n": {"9" * 5000}}}',
        '{"a": {"b": {"c": {"d": {"e": 1}}}}}',
        json.dumps({f"k{n}": "v" * 500 for n in range(500)}),
        json.dumps({"k" * 5000: "\u202e<script>\x00"}),
    ],
)
def test_odd_args_are_bounded_and_break_nothing(args: str) -> None:
    shown = args_previews([row(args), row({"to": "a@b.example"})])
    assert shown[1] == "to: a@b.example"
    assert len(shown[0]) <= max(len(args), 300)
    if not args.startswith('{"') or args.endswith("he"):
        assert shown[0] == args


def test_a_page_of_previews_costs_little() -> None:
    order = {"id": 1840021779932964863, "total": {"amount": 12.5, "currency": "EUR"}}
    rows = [row({"to": f"{n}@mail.example", "order": order, "locale": "pt-PT"}) for n in range(100)]

    def seconds() -> float:
        started = time.perf_counter()
        args_previews(rows)
        return time.perf_counter() - started

    # The best of many: some 0.4 ms, and a busy machine shall not matter.
    assert min(seconds() for _ in range(200)) < 0.002
