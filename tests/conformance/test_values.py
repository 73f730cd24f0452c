"""Scenarios of computed values, with River's names. The values are those of River's fixtures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.conformance.sides import Pair, SideError

pytestmark = pytest.mark.interop

_VALUES: dict[str, Any] = json.loads(Path(__file__).with_name("values.json").read_text())
_NOW = "2026-01-02T03:04:05.6789Z"


def test_deterministic_retry_clock_rng(pair: Pair) -> None:
    pair.ours.call("clock_set", now=_NOW)
    pair.ours.call("rng_seed", seed=2**64 - 1)
    for errors in (1, 2, 3, 11):
        delay = pair.ours.call("retry_delay", error_count=errors, job_id=2**53 - 1)["delay_ns"]
        assert 0.9 <= delay / (errors**4 * 10**9) <= 1.1
    longest = pair.ours.call("retry_delay", error_count=310, job_id=42)["delay_ns"]
    assert longest == 2**63 - 1


def test_cron_schedule_goldens(pair: Pair) -> None:
    with cases() as case:
        for expression, first, *expected in _VALUES["cron"]:
            with case(expression):
                told = pair.ours.call(
                    "cron_next",
                    count=max(len(expected), 1),
                    expression=expression,
                    **{"from": first or _NOW},
                )
                assert told["next"] == expected
        for expression in _VALUES["cron_invalid"]:
            with case(expression):
                pair.ours.refuses(
                    "rejected", "cron_next", count=1, expression=expression, **{"from": _NOW}
                )


def test_unique_hash_goldens(pair: Pair) -> None:
    plain = {"by_args": True, "by_period_nanos": 0, "by_queue": False, "exclude_kind": False}

    def told(kind: str, args: str, **given: Any) -> tuple[str, int]:
        params = {
            "kind": f"conformance_{kind}",
            "now": given.pop("now", _NOW),
            "queue": given.pop("queue", "default"),
            "scheduled_at": given.pop("scheduled_at", None),
            "options": {**plain, **given},
        }
        text = f'{json.dumps(params)[:-1]}, "args": {args}}}'
        result = pair.ours.call_with_text("unique_key", text)
        return result["sha256"], result["state_mask"]

    with cases() as case:
        for name, kind, args, digest, given in _VALUES["unique"]:
            with case(name):
                options = dict(given)
                mask = options.pop("mask", 245)
                assert told(kind, args, **options) == (digest, mask)
        for args in ("[]", "1", '"text"', "null"):
            with case(args), pytest.raises(SideError, match="rejected"):
                told("all_args", args)
