"""What is kept of a minute or of ten, however much happened in it."""

from __future__ import annotations

from riverui.domain.figures import OTHER, Tally
from riverui.domain.sketch import FIRST_BIN, LAST_BIN, Sketch
from riverui.web.live.figure_buckets import Bucket
from riverui.web.live.figure_cells import BUCKET_BYTES


def test_a_bucket_is_bounded_however_long_its_jobs_took() -> None:
    full = Sketch(dict.fromkeys(range(FIRST_BIN, LAST_BIN + 1), 2**40), sum_us=1, max_us=1)
    cells = {
        ("q", f"kind_{n}"): Tally(
            completed=n, run=full.copy(), failed_run=full.copy(), wait=full.copy()
        )
        for n in range(200)
    }
    bucket = Bucket(0, 60)
    bucket.settle(range(6), cells, 1, most=200)
    assert bucket.packed is not None
    assert sum(map(len, bucket.packed.values())) <= BUCKET_BYTES
    assert ("q", "kind_199") in bucket.packed
    assert ("q", OTHER) in bucket.packed
    kept = bucket.cells()
    assert sum(tally.completed for tally in kept.values()) == sum(range(200))
    assert sum(tally.wait.n for tally in kept.values()) == 200 * full.n


def test_a_minute_is_known_from_its_first_second_on() -> None:
    bucket = Bucket(600, 60)
    assert not bucket.known(600.4)
    bucket.put(0, {}, 1)
    assert bucket.known(600.4)
    assert bucket.known(610.0)
    assert not bucket.known(610.4)
    bucket.put(1, {}, 1)
    assert bucket.known(610.4)
