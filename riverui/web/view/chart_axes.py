"""Axes of charts: round ticks for counts, shares and spans, and whole minutes for times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil, log, log10

from msgspec import Struct, structs

from riverui.domain.time import duration
from riverui.web.view.format import compact, number, percent

_MANTISSAS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
"""First digits of an axis's end: half of each is round as well."""
_SPANS = (
    (0.001, "1 ms"),
    (0.01, "10 ms"),
    (0.1, "100 ms"),
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 m"),
    (600.0, "10 m"),
    (3_600.0, "1 h"),
    (21_600.0, "6 h"),
    (86_400.0, "1 d"),
    (604_800.0, "7 d"),
    (2_592_000.0, "30 d"),
)
"""Spans at which a logarithmic axis may begin and end, in seconds."""
_BETWEEN = (
    (0.003, "3 ms"),
    (0.03, "30 ms"),
    (0.3, "300 ms"),
    (3.0, "3 s"),
    (30.0, "30 s"),
    (180.0, "3 m"),
    (1_800.0, "30 m"),
    (10_800.0, "3 h"),
    (43_200.0, "12 h"),
    (259_200.0, "3 d"),
    (1_209_600.0, "14 d"),
)
"""Spans at which it has ticks as well, where there is room."""
_TICK_ROOM = 0.13
"""Distance of two ticks of it at least, from 0 to 1: the height of their texts in small charts."""
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_TIME_STEPS = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
        *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
        *(days * _DAY for days in (1, 2, 7, 14, 28)),
    )
)
"""Possible distances of labels on the time axis."""
_MAX_LABELS = 7
"""Labels on the time axis at most: as many as fit on a phone."""


class Unit(StrEnum):
    """What the values of a chart are."""

    JOBS = "jobs"
    SECONDS = "seconds"
    SHARE = "share"
    """From 0 to 1, shown in per cent."""


class Axis(Struct, frozen=True, kw_only=True):
    """An axis of values, from its bottom to its top."""

    low: float
    top: float
    ticks: Sequence[tuple[float, str]]
    """The value and label of each tick, the lowest first."""
    log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value, from 0 to 1; values beyond an end are placed there."""
        if self.log:
            value = max(value, self.low)
            share = log(value / self.low) / log(self.top / self.low)
        else:
            share = (value - self.low) / (self.top - self.low)
        return min(max(share, 0.0), 1.0)


def value_axis(
    values: Iterable[float], unit: Unit, *, logarithmic: bool = False, large: bool = False
) -> Axis:
    """Return an axis for all these values, on request a logarithmic one; a linear one has three
    ticks, in a large chart more.
    """
    found = list(values)
    if logarithmic:
        return _log_axis([value for value in found if value > 0])
    top = max(found, default=0.0)
    if unit is Unit.SHARE:
        top = min(_round_top(top * 100, least=2.0), 100.0) / 100
    elif unit is Unit.SECONDS:
        scale = next((n for n in (_HOUR, _MINUTE) if top >= n), 1)
        top = scale * _round_top(top / scale, least=0.002)
    else:
        top = _round_top(top, least=2.0)
    parts = 2
    if large:
        # Jobs are whole ones.
        parts = next((n for n in (4, 5) if unit is not Unit.JOBS or top % n == 0), 2)
    ticks = [top * n / parts for n in range(parts + 1)]
    return Axis(low=0.0, top=top, ticks=[(tick, _tick_text(tick, unit)) for tick in ticks])


def value_text(value: float, unit: Unit) -> str:
    """Return a value in words: 1,203 · 0.4 · 1.2 s · 31 %."""
    if unit is Unit.SECONDS:
        return duration(timedelta(seconds=value)) if value else "0 s"
    if unit is Unit.SHARE:
        return percent(value)
    if value == int(value):
        return number(int(value)) if value < 100_000 else compact(int(value))
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def _tick_text(value: float, unit: Unit) -> str:
    """Return a value in words without what a round one does not need: 2 s · 1 m."""
    text = value_text(value, unit)
    return text.replace(".0 ", " ").removesuffix(" 0 s").removesuffix(" 0 m") or text


def time_ticks(start: datetime, end: datetime) -> list[tuple[float, datetime, str]]:
    """Return the labels of the time axis from `start` to `end`: position (from 0 to 1), time, and
    text in UTC, which is month and day if labels are days apart, otherwise hours and minutes.
    """
    span = end - start
    step = next((step for step in _TIME_STEPS if span / step <= _MAX_LABELS), _TIME_STEPS[-1])
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    at = epoch + -((epoch - start) // step) * step
    found = []
    while at < end:
        text = f"{at:%m-%d}" if step >= timedelta(days=1) else f"{at:%H:%M}"
        found.append(((at - start) / span, at, text))
        at += step
    return found


def _round_top(value: float, *, least: float) -> float:
    """Return the smallest round number from `value` on of which half is round too."""
    value = max(value, least)
    power = 10.0 ** ceil(log10(value) - 1)
    for mantissa in _MANTISSAS:
        # Rounded, so that 0.3 and 0.1 + 0.2 are the same.
        if round(mantissa * power, 9) >= round(value, 9):
            return round(mantissa * power, 9)
    return round(10 * power, 9)


def _log_axis(values: Sequence[float]) -> Axis:
    low, top = min(values, default=0.01), max(values, default=1.0)
    last = len(_SPANS) - 1
    begin = max((i for i, (span, _) in enumerate(_SPANS) if span <= low), default=0)
    end = next((i for i, (span, _) in enumerate(_SPANS) if span >= top), last)
    # Three ticks need two steps; a wider axis has more room for slower jobs.
    while end - begin < 2:
        begin, end = (begin, end + 1) if end < last else (begin - 1, end)
    ends = _SPANS[begin], _SPANS[end]
    axis = Axis(low=ends[0][0], top=ends[1][0], ticks=ends, log=True)
    ticks = list(ends)
    for tick in (*_SPANS[begin:end], *_BETWEEN):
        apart = min(abs(axis.place(tick[0]) - axis.place(other)) for other, _ in ticks)
        if apart >= _TICK_ROOM:
            ticks.append(tick)
    return structs.replace(axis, ticks=sorted(ticks))
