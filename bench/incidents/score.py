"""The score as Markdown: how many incidents were found, and what was said wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bench.incidents.play import MINUTES, Result
from bench.incidents.reports import READERS

_FROM = 5
"""Minutes after which an incident should be found."""


def score(results: Sequence[Result]) -> str:
    """Return the tables."""
    sick = [result for result in results if not result.healthy]
    calm = [result for result in results if result.healthy]
    incidents, oddities = (len({(r.name, r.seed) for r in some}) for some in (sick, calm))
    lines = [
        f"{incidents:,} incidents and {oddities:,} oddities on"
        f" {len({result.seed for result in results}):,} random backgrounds,"
        f" {len(results):,} reports. From the fifth minute on:",
        "",
        "| | found of what the rows show | of all | what was said is true | false alarms |",
        "|---|---|---|---|---|",
    ]
    for reader, words in READERS.items():
        own = [r for r in results if r.reader == reader and r.minutes >= _FROM]
        ill, odd = [r for r in own if not r.healthy], [r for r in own if r.healthy]
        if own:
            alarms = f"{sum(bool(result.wrong) for result in odd):,} of {len(odd):,}"
            shares = (_found([r for r in ill if r.shown]), _found(ill), _true(own))
            lines.append(f"| {words} | {' | '.join(shares)} | {alarms} |")
    lines += _incidents(sick, "by all of them")
    for reader, words in READERS.items():
        lines += _incidents([r for r in sick if r.reader == reader], words)
    lines += _said(results)
    return "\n".join(lines) + "\n"


def _incidents(results: Sequence[Result], reader: str) -> Iterator[str]:
    """Yield the table of some readers: how many of each incident they found, of those shown."""
    if not results:
        return
    heads = [*(f"{n} min" for n in MINUTES), f"from {_FROM} min", "true"]
    yield from ("", f"Found of what the rows show, {reader}:", "")
    yield f"| incident | played | {' | '.join(heads)} |"
    yield "|---|---|" + "---|" * len(heads)
    for name in (*dict.fromkeys(result.name for result in results), ""):
        own = [r for r in results if name in ("", r.name)]
        shown = [r for r in own if r.shown]
        cells = [_found([r for r in shown if r.minutes == minutes]) for minutes in MINUTES]
        cells.append(_found([r for r in shown if r.minutes >= _FROM]))
        cells.append(_true([r for r in own if r.minutes >= _FROM]))
        played = len({(r.name, r.seed) for r in own})
        yield f"| {name or '**all**'} | {played:,} | {' | '.join(cells)} |"


def _said(results: Sequence[Result]) -> Iterator[str]:
    """Yield the table of what was said by all reports, by cause."""
    late = [result for result in results if result.minutes >= _FROM]
    right = Counter(cause for result in late for cause in set(result.right))
    wrong = Counter((c, result.name) for result in late for c in set(result.wrong))
    yield from ("", f"Said by all of them, from {_FROM} min on:", "")
    yield from ("| cause | rightly | wrongly | true | wrongly in |", "|---|---|---|---|---|")
    for cause in sorted({*right, *(cause for cause, _ in wrong)}):
        own = Counter({name: n for (each, name), n in wrong.items() if each == cause})
        share = f"{right[cause] / (right[cause] + own.total()):.0%}"
        most = ", ".join(f"{name} {n}" for name, n in own.most_common(3))
        yield f"| {cause} | {right[cause]:,} | {own.total():,} | {share} | {most} |"


def _found(results: Sequence[Result]) -> str:
    return f"{sum(bool(r.right) for r in results) / len(results):.0%}" if results else ""


def _true(results: Sequence[Result]) -> str:
    wrong = sum(len(set(result.wrong)) for result in results)
    said = wrong + sum(bool(result.right) for result in results)
    return f"{(said - wrong) / said:.0%}" if said else ""
