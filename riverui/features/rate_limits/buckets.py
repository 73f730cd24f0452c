"""How fast jobs may begin: a bucket that fills with tokens, of which each job takes some.

A bucket is kept as one instant, at which it is full again. All arithmetic is on the seconds until
then, `full_in`: negative where the bucket has been full for so long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import exp

from msgspec import Struct

SPARE = 0.5
"""Tokens beyond `burst` that a full bucket goes on to take in: less than a job's, so that no more
jobs begin, and enough that none is lost where a bucket of one token is emptied a little late.
"""
_NEARLY = 1e-6
"""Tokens that may lack: a bucket's instant is kept to the microsecond."""
PACE_SECONDS = 10.0
"""For which the pace of a bucket is told: the mean of about so long, newer tokens counting more."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How a bucket fills, and how much it holds."""

    per_second: float
    """Tokens that come in each second."""
    burst: float
    """Tokens in a full bucket."""

    @property
    def spare_seconds(self) -> float:
        """Return how long a full bucket goes on to take in tokens."""
        return SPARE / self.per_second

    def tokens(self, full_in: float) -> float:
        """Return what is in the bucket: below 0 where a heavy job has taken more than there was."""
        return self.burst - max(full_in, -self.spare_seconds) * self.per_second

    def affords(self, tokens: float, weight: float) -> bool:
        """Return whether a job may begin that takes `weight` tokens.

        One that is heavier than a full bucket may where the bucket is full: what it takes too much
        has to come in before the next one.
        """
        return tokens + _NEARLY >= min(weight, self.burst)

    def due_in(self, tokens: float, weight: float) -> float:
        """Return the seconds until the job may begin, 0 where it may now."""
        return max(0.0, (min(weight, self.burst) - tokens) / self.per_second)

    def spent(self, full_in: float, tokens: float) -> float:
        """Return the seconds until the bucket is full once so many tokens were taken."""
        return max(full_in, -self.spare_seconds) + tokens / self.per_second


class Purse:
    """The tokens of one bucket, while jobs are chosen: they come one after another.

    A job that has to wait holds up those behind it, so that light ones do not pass a heavy one for
    ever.
    """

    __slots__ = ("_rate", "_tokens", "spent", "waits_for")

    def __init__(self, rate: Rate, tokens: float) -> None:
        self._rate = rate
        self._tokens = tokens
        self.spent = 0.0
        self.waits_for: float | None = None
        """Seconds until the first job that has to wait may begin; None where none has to."""

    def take(self, weight: float) -> bool:
        """Take a job's tokens and return True; False where it has to wait."""
        if self.waits_for is not None:
            return False
        if not self._rate.affords(self._tokens, weight):
            self.waits_for = self._rate.due_in(self._tokens, weight)
            return False
        self._tokens -= weight
        self.spent += weight
        return True

    def put_back(self, weight: float) -> None:
        """Give back what was taken for a job that does not begin after all."""
        self._tokens += weight
        self.spent -= weight


def fetch_again_in(rate: Rate, due_in: float, cooldown: float) -> float:
    """Return the seconds after which to fetch again, where the next token is due in `due_in`.

    Tokens that come soon afterwards are waited for, for as long as the cooldown, but not until a
    bucket that holds few would run over.
    """
    return due_in + min(cooldown, ((rate.burst - 1) / 2 + SPARE / 5) / rate.per_second)


def pace_now(pace: float, seconds_ago: float) -> float:
    """Return the tokens a second that were taken lately, from what was told of some time ago."""
    return pace * exp(-max(seconds_ago, 0.0) / PACE_SECONDS)


class RateRow(Struct, frozen=True, kw_only=True):
    """One bucket as its row tells."""

    queue: str
    key: str
    limit: float
    per: timedelta
    burst: float
    full_in: float
    """Seconds."""
    pace: float
    """Tokens a second that are taken at present."""

    @property
    def rate(self) -> Rate:
        """Return how it fills."""
        return Rate(self.limit / self.per.total_seconds(), self.burst)

    @property
    def tokens(self) -> float:
        """Return what is in the bucket, up to `burst`."""
        return min(self.burst, self.rate.tokens(self.full_in))
