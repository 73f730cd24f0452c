"""How often figures are read and stored, and how much of them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from riverui.features.figures.domain import MAX_PAIRS


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureLimits:
    """The limits of one dashboard; spans in seconds are by the process's clock."""

    tick_seconds: float = 10.0
    """From one reading of new rows to the next; up to three times as long if that takes long."""
    rest_seconds: float = 600.0
    """After the last viewer, until reading stops."""
    first_seconds: float = 1.0
    """How long a viewer waits for a first reading of rows, or of a stored window."""
    settle: timedelta = timedelta(seconds=120)
    """From the end of a minute until it is read for good. River's clients write what ended within
    seconds, and their clocks are that close.
    """
    commit: timedelta = timedelta(seconds=3)
    """From the end of a job until it is read for the first time: a client's batch, and its clock.
    What takes longer is found when the minute is read for good.
    """
    slice_seconds: float = 0.05
    """Of the database's time, for one statement that reads the past."""
    share: float = 0.01
    """The share of time spent on reading new rows."""
    most_per_second: float = 3_000.0
    """Ended jobs, above which one second of each ten is read: more would take above `share`."""
    most_per_second_of_day: float = 33.0
    """The same for minutes before the last hour: percentiles are still good, and a day of ten
    million jobs takes six seconds of Postgres's processor.
    """
    pairs: int = MAX_PAIRS
    """Pairs of queue and kind that are named in a window."""
    attempts: int = 50_000
    """Failed attempts that are remembered so that none is counted twice: an hour of 14 a second."""
    inserted_ids: int = 20_000
    """New ids between two readings, 2,000 a second, above which only their number is counted."""
    waiting_cap: int = 10_000
    """Available jobs that are counted of each queue."""
    timeout: timedelta = timedelta(seconds=2)
    """For each statement on River's rows."""
    most_rest_seconds: float = 300.0
    """Between two tries while the database cannot be read."""
    store_seconds: float = 60.0
    """From one look for minutes to store to the next."""
    store_soon_seconds: float = 5.0
    """The same while the past is being stored."""
    look_for_table_seconds: float = 30.0
    """Between two checks whether the table has been created."""
    abandoned: timedelta = timedelta(minutes=6)
    """Age of the newest stored minute from which no other dashboard seems to store figures. A
    minute is stored two to three minutes after its end.
    """
