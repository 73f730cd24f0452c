"""Token buckets: a bucket fills with tokens, and each job that starts takes some.

A bucket is stored as one instant, at which it is full again. All arithmetic uses the seconds until
then, `full_in`; a negative value says for how long the bucket has been full.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import exp

from msgspec import Struct

SPARE = 0.5
"""Tokens beyond `burst` that a full bucket still takes in: less than one job's, so that no
additional jobs start, and enough that none is lost if a bucket of one token is emptied a little
late.
"""
_NEARLY = 1e-6
"""Rounding error in tokens: a bucket's instant is stored in microseconds."""
PACE_SECONDS = 10.0
"""Time constant of a bucket's pace: an average over about so many seconds, weighted to the
newest.
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a bucket fills, and how much it holds."""

    per_second: float
    """Tokens that are added per second."""
    burst: float
    """Tokens in a full bucket."""

    @property
    def spare_seconds(self) -> float:
        """Return how long a full bucket still takes in tokens."""
        return SPARE / self.per_second

    def tokens(self, full_in: float) -> float:
        """Return the tokens in the bucket; negative if a heavy job has taken more than
        there were.
        """
        return self.burst - max(full_in, -self.spare_seconds) * self.per_second

    def affords(self, tokens: float, weight: float) -> bool:
        """Return whether a job that takes `weight` tokens may start.

        A job that is heavier than a full bucket may start when the bucket is full; its deficit must
        be refilled before the next job.
        """
        return tokens + _NEARLY >= min(weight, self.burst)

    def due_in(self, tokens: float, weight: float) -> float:
        """Return the seconds until the job may start, 0 for now."""
        return max(0.0, (min(weight, self.burst) - tokens) / self.per_second)

    def spent(self, full_in: float, tokens: float) -> float:
        """Return the seconds until the bucket is full, after so many tokens were taken."""
        return max(full_in, -self.spare_seconds) + tokens / self.per_second


class Purse:
    """The tokens of one bucket, while jobs are chosen in order.

    A job that has to wait blocks those behind it, so that light jobs do not pass a heavy one for
    ever.
    """

    __slots__ = ("_rate", "_tokens", "spent", "waits_for")

    def __init__(self, rate: Rate, tokens: float) -> None:
        self._rate = rate
        self._tokens = tokens
        self.spent = 0.0
        self.waits_for: float | None = None
        """Seconds until the first blocked job may start; None if none is blocked."""

    def take(self, weight: float) -> bool:
        """Take a job's tokens and return True; return False if it has to wait."""
        if self.waits_for is not None:
            return False
        if not self._rate.affords(self._tokens, weight):
            self.waits_for = self._rate.due_in(self._tokens, weight)
            return False
        self._tokens -= weight
        self.spent += weight
        return True

    def put_back(self, weight: float) -> None:
        """Return the tokens of a job that does not start after all."""
        self._tokens += weight
        self.spent -= weight


def fetch_again_in(rate: Rate, due_in: float, cooldown: float) -> float:
    """Return the seconds after which to fetch again, if the next token is due in `due_in`.

    Also wait for tokens that come soon afterwards, for the cooldown at most, but not until a small
    bucket would overflow.
    """
    return due_in + min(cooldown, ((rate.burst - 1) / 2 + SPARE / 5) / rate.per_second)


def pace_now(pace: float, seconds_ago: float) -> float:
    """Return the current tokens taken per second, from the stored value of some time ago."""
    return pace * exp(-max(seconds_ago, 0.0) / PACE_SECONDS)


class RateRow(Struct, frozen=True, kw_only=True):
    """One bucket as stored."""

    queue: str
    key: str
    limit: float
    per: timedelta
    burst: float
    full_in: float
    """Seconds until it is full."""
    pace: float
    """Tokens taken per second at present."""

    @property
    def rate(self) -> Rate:
        """Return how fast it fills and how much it holds."""
        return Rate(self.limit / self.per.total_seconds(), self.burst)

    @property
    def tokens(self) -> float:
        """Return the tokens in the bucket, up to `burst`."""
        return min(self.burst, self.rate.tokens(self.full_in))
