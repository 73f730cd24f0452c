"""Sketches return percentiles within their error, however they were put together."""

from __future__ import annotations

from datetime import timedelta
from math import ceil, sqrt

from hypothesis import example, given, strategies as st

from riverui.domain.sketch import FIRST_BIN, GAMMA, LAST_BIN, Sketch

ERROR = sqrt(GAMMA) - 1
"""Share of a span by which a percentile may be off, 5.1 %: half of what separates two bins."""
FLOOR = 1_081
"""Microseconds of the longest span of the first bin."""
TOP = int(GAMMA ** (LAST_BIN - 1))
"""Microseconds up to which spans have bins of their own."""

spans = st.lists(
    st.one_of(
        st.integers(FLOOR + 1, TOP),
        st.integers(FLOOR + 1, 100_000),
        # Round figures, as timeouts and tests make them.
        st.sampled_from([2_000, 10_000, 1_000_000, 30_000_000, 3_600_000_000]),
    ),
    min_size=1,
    max_size=300,
)
quantiles = st.sampled_from([0.0, 0.01, 0.5, 0.75, 0.95, 0.99, 1.0])


def of(microseconds: list[int]) -> Sketch:
    return Sketch.from_spans(timedelta(microseconds=n) for n in microseconds)


def same(one: Sketch, other: Sketch) -> bool:
    return (one.counts, one.sum_us, one.max_us) == (other.counts, other.sum_us, other.max_us)


@given(spans, quantiles)
@example([1_082, 1_082, 79_422, 83_396], 0.75)
def test_percentiles_are_within_their_error(found: list[int], q: float) -> None:
    exact = sorted(found)[max(1, ceil(q * len(found))) - 1]
    returned = of(found).quantile(q)
    assert returned is not None
    # Bins begin and end, and are returned, at whole microseconds.
    assert abs(returned / timedelta(microseconds=1) - exact) <= ERROR * exact + 2


@given(spans)
def test_the_rest_is_exact(found: list[int]) -> None:
    sketch = of(found)
    assert sketch.n == len(found)
    assert sketch.longest == timedelta(microseconds=max(found))
    assert sketch.sum_us == sum(found)


@given(spans, spans)
def test_two_merged_are_both_together(one: list[int], other: list[int]) -> None:
    merged, first = of(one), of(one)
    merged.merge(of(other))
    assert same(merged, of(one + other))
    first.copy().merge(of(other))
    assert same(first, of(one))


@given(st.integers(-(10**18), 10**18))
def test_every_span_has_a_bin(microseconds: int) -> None:
    (found,) = of([microseconds]).counts
    assert FIRST_BIN <= found <= LAST_BIN
    if FIRST_BIN < found < LAST_BIN:
        assert GAMMA ** (found - 1) * (1 - 1e-9) <= microseconds <= GAMMA**found * (1 + 1e-9)


def test_what_is_out_of_reach() -> None:
    assert of([]).quantile(0.5) is None
    assert of([]).longest is None
    assert of([0, 0]).quantile(0.99) == timedelta(0)
    assert Sketch.from_spans([timedelta(days=-3)]).longest == timedelta(0)
    short = of([1, 5, 900]).quantile(0.5)
    assert short is not None
    assert short <= timedelta(microseconds=FLOOR)
    long = Sketch.from_spans([timedelta(days=400)]).quantile(0.5)
    assert long is not None
    assert timedelta(days=28) < long < timedelta(days=33)


def test_a_span_may_count_for_many() -> None:
    sketch = Sketch()
    sketch.add(timedelta(seconds=2), 10)
    assert same(sketch, of([2_000_000] * 10))
