"""The score as Markdown: how many incidents were found, and what was said wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.incidents.play import MINUTES, Result
from bench.incidents.reports import READERS


def score(results: Sequence[Result], *, backgrounds: int) -> str:
    """Return the tables."""
    sick = [result for result in results if not result.healthy]
    calm = [result for result in results if result.healthy]
    incidents, oddities = (len({(r.name, r.seed) for r in some}) for some in (sick, calm))
    lines = [
        f"{incidents:,} incidents and {oddities:,} oddities on {backgrounds:,} random backgrounds.",
        "",
        "| | found | of those that the rows show | what was said is true | false alarms |",
        "|---|---|---|---|---|",
    ]
    for reader in READERS:
        own = [result for result in sick if result.reader == reader]
        odd = [result for result in calm if result.reader == reader]
        if own or odd:
            shown = [result for result in own if result.shown]
            alarms = sum(bool(result.wrong) for result in odd)
            lines.append(
                f"| {READERS[reader]} | {_share(own)} | {_share(shown)} | {_true([*own, *odd])} |"
                f" {alarms:,} of {len(odd):,} |"
            )
    heads = [f"{words}: {n}" for words in READERS.values() for n in MINUTES]
    lines += ["", f"| minutes ago | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in dict.fromkeys(result.name for result in sick):
        lines.append(_row(name, [result for result in sick if result.name == name]))
    lines.append(_row("**all**", sick))
    lines.append(_row("**shown by the rows**", [result for result in sick if result.shown]))
    wrong = [(r.name, cause) for r in results for cause in set(r.wrong)]
    if wrong:
        lines += ["", "| said wrongly | in | times |", "|---|---|---|"]
        for name, cause in sorted(set(wrong), key=lambda each: (-wrong.count(each), each)):
            lines.append(f"| {cause} | {name} | {wrong.count((name, cause)):,} |")
    return "\n".join(lines) + "\n"


def _row(name: str, results: Sequence[Result]) -> str:
    cells = [
        _share([r for r in results if r.reader == reader and r.minutes == minutes])
        for reader in READERS
        for minutes in MINUTES
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def _share(results: Sequence[Result]) -> str:
    return f"{sum(r.right for r in results) / len(results):.0%}" if results else ""


def _true(results: Iterable[Result]) -> str:
    said = wrong = 0
    for result in results:
        wrong += len(set(result.wrong))
        said += len(set(result.wrong)) + result.right
    return f"{(said - wrong) / said:.0%}" if said else ""
