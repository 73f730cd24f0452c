"""The configuration of rate limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from math import isfinite
from typing import Any

from riverui.domain.jobs import JsonText
from riverui.domain.json import ODD_VALUE, read_object
from riverui.domain.partitions import WHOLE, Partition
from riverui.domain.time import duration
from riverui.errors import ConfigError
from riverui.features.rate_limits.buckets import Rate

MAX_PER_SECOND = 1_000_000.0
"""Maximum tokens per second: a bucket's instant is stored in microseconds."""
MAX_BURST = 1e9
"""Maximum tokens in a bucket."""
LONGEST = timedelta(days=366)
"""Allowed spans of a limit."""
MAX_BUCKETS = 10
"""Most full buckets that one job can take: args may come from users, and must not block their key
for years.
"""

OVERRIDE = "riverui:rate_limit"
"""Key in a queue's metadata for numbers that override the client's: an object with `limit`, and
`per_seconds` and `burst` if they differ.
"""
_MAX_WEIGHTS = 20
"""Most weights reported in heartbeats; of more, only that there are weights."""
SPANS = {
    timedelta(seconds=1): "a second",
    timedelta(minutes=1): "a minute",
    timedelta(hours=1): "an hour",
    timedelta(days=1): "a day",
}
"""Spans that have a name, with the article."""

Weight = float | str | Mapping[str, float] | Callable[[str, Mapping[str, object]], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """Limits how many jobs start in each span of time, in all clients together.

    A bucket fills with `limit` tokens in each `per` and holds `burst` of them; a job that starts
    takes one, or as many as its weight. Raises ConfigError that names the problem.
    """

    limit: float
    per: timedelta = timedelta(seconds=1)
    burst: float | None = None
    """Tokens in a full bucket, and so jobs that may start at once after a quiet time: by default
    `limit`, at least 1.
    """
    partition: Partition = WHOLE
    """Gives each key its own bucket."""
    weight: Weight = 1.0
    """Tokens that a job takes: a number, a dict of kind → number (1 for other kinds), the name of
    an arg that holds the number (1 where it holds none), or a function of kind and args.
    """
    weight_args: tuple[str, ...] = ()
    """Names of the args that the function gets, and no others. Values of more than 200 bytes are
    left out.
    """

    def __post_init__(self) -> None:
        _check_number("limit", self.limit, above=0)
        if not isinstance(self.per, timedelta) or not (
            timedelta(milliseconds=1) <= self.per <= LONGEST
        ):
            raise ConfigError("rate_limit: per must be a timedelta of 1 ms to 366 days.")
        if self.limit / self.per.total_seconds() > MAX_PER_SECOND:
            raise ConfigError(f"rate_limit: at most {MAX_PER_SECOND:,.0f} a second.")
        if self.burst is not None:
            _check_number("burst", self.burst, above=0)
            if not 1 <= self.burst <= MAX_BURST:
                raise ConfigError(f"rate_limit: burst must be from 1 to {MAX_BURST:,.0f}.")
        if not isinstance(self.partition, Partition):
            raise ConfigError("rate_limit: partition must be a Partition.")
        weight = self.weight
        if isinstance(weight, str):
            Partition(by_args=(weight,))
        elif isinstance(weight, Mapping):
            for kind, number in weight.items():
                _check_number(f"weight of {kind}", number)
        elif not callable(weight):
            _check_number("weight", weight)
        if self.weight_args and not callable(weight):
            raise ConfigError("rate_limit: weight_args are for a weight that is a function.")
        for name in self.weight_args:
            Partition(by_args=(name,))

    def as_terms(self) -> dict[str, Any]:
        """Return the terms for heartbeats; the weight is None if it is a function, or too long."""
        weight: Any = None
        if isinstance(self.weight, int | float | str):
            weight = self.weight
        elif isinstance(self.weight, Mapping) and len(self.weight) <= _MAX_WEIGHTS:
            weight = dict(self.weight)
        return {
            "limit": self.limit,
            "per_seconds": self.per.total_seconds(),
            "burst": self.burst,
            "partition": self.partition.as_object(),
            "weight": weight,
        }

    @property
    def rate(self) -> Rate:
        """Return how fast a bucket fills, and how much it holds."""
        burst = max(1.0, self.limit) if self.burst is None else self.burst
        return Rate(self.limit / self.per.total_seconds(), min(burst, MAX_BURST))

    @property
    def words(self) -> str:
        """Return how fast jobs may start, such as "100 a second"."""
        span = SPANS.get(self.per)
        return f"{number(self.limit)} " + (span if span else f"in {duration(self.per)}")

    @property
    def burst_words(self) -> str:
        """Return how many tokens a full bucket holds."""
        return number(self.rate.burst)

    @property
    def weighs_args(self) -> tuple[Partition, ...]:
        """Return the partitions whose keys hold the args that a job's weight depends on."""
        names = (self.weight,) if isinstance(self.weight, str) else self.weight_args
        return tuple(Partition(by_args=(name,)) for name in names)

    def weight_of(self, kind: str, keys: Mapping[Partition, str]) -> float:
        """Return how many tokens a job takes; `keys` are its keys in the partitions of
        `weighs_args`.

        A negative or invalid weight counts as one token; a function's exceptions are raised.
        """
        weight = self.weight
        if isinstance(weight, Mapping):
            return self._bounded(weight.get(kind, 1.0))
        if isinstance(weight, str):
            return self._bounded(_args(self.weighs_args, keys).get(weight, 1.0))
        if callable(weight):
            return self._bounded(weight(kind, _args(self.weighs_args, keys)))
        return self._bounded(weight)

    def overridden(self, metadata: str) -> RateLimit:
        """Return the limit with the numbers from a queue's metadata (JSON text), under `OVERRIDE`;
        unchanged if there are none, or they are not valid.
        """
        if OVERRIDE not in metadata:
            return self
        try:
            found = json.loads(metadata).get(OVERRIDE)
            return self if found is None else RateOverride.read(found).on(self)
        except (ConfigError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return self

    def _bounded(self, weight: object) -> float:
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            return 1.0
        if not weight >= 0:
            return 1.0
        return float(min(weight, MAX_BUCKETS * self.rate.burst))


@dataclass(frozen=True, kw_only=True, slots=True)
class RateOverride:
    """Numbers that override those of a client's rate limit, which keeps its partition and weights.
    Raises ConfigError that names the problem.
    """

    limit: float | None = None
    """By default the client's."""
    per: timedelta | None = None
    """By default the client's."""
    burst: float | None = None
    """By default `limit`."""

    def __post_init__(self) -> None:
        self.on(RateLimit(limit=1, per=LONGEST if self.per is None else self.per))

    def on(self, configured: RateLimit) -> RateLimit:
        """Return a client's limit with these numbers instead of its own."""
        return replace(
            configured,
            limit=configured.limit if self.limit is None else self.limit,
            per=configured.per if self.per is None else self.per,
            burst=self.burst,
        )

    @classmethod
    def read(cls, found: object) -> RateOverride:
        """Return the numbers from JSON; raise ConfigError if they have another form."""
        if not isinstance(found, Mapping):
            raise ConfigError(f"{OVERRIDE} must be an object.")
        seconds = found.get("per_seconds")
        try:
            per = None if seconds is None else timedelta(seconds=seconds)
        except (TypeError, ValueError, OverflowError):
            raise ConfigError("rate_limit: per_seconds must be a number of seconds.") from None
        return cls(limit=found.get("limit"), per=per, burst=found.get("burst"))

    def as_json(self) -> str:
        """Return it as JSON."""
        numbers = {
            "limit": self.limit,
            "per_seconds": None if self.per is None else self.per.total_seconds(),
            "burst": self.burst,
        }
        return json.dumps({name: value for name, value in numbers.items() if value is not None})


def read_terms(terms: Mapping[str, Any]) -> tuple[RateLimit, bool] | None:
    """Return the rate limit written by `as_terms`, and whether its weights are known; None if it
    cannot be read.
    """
    try:
        weight = terms["weight"]
        limit = RateLimit(
            limit=terms["limit"],
            per=timedelta(seconds=terms["per_seconds"]),
            burst=terms["burst"],
            partition=Partition.read(terms["partition"]),
            weight=1.0 if weight is None else weight,
        )
    except (ConfigError, *ODD_VALUE):
        return None
    return limit, weight is not None


def rate_override_of(metadata: JsonText) -> RateOverride | None:
    """Return the numbers that a queue's metadata sets, None if it sets none; raise ConfigError if
    they cannot be read.
    """
    if OVERRIDE not in metadata.text:
        return None
    if not metadata.complete:
        raise ConfigError("the queue's metadata is too long to be read.")
    found = read_object(metadata.text).get(OVERRIDE)
    return None if found is None else RateOverride.read(found)


def number(value: float) -> str:
    """Return a number with at most two decimals, never as a power of ten."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _args(partitions: tuple[Partition, ...], keys: Mapping[Partition, str]) -> dict[str, object]:
    args: dict[str, object] = {}
    for partition in partitions:
        try:
            found = json.loads(keys.get(partition, ""))
        except (ValueError, RecursionError):
            # A long value was cut.
            continue
        if isinstance(found, dict):
            args.update(found)
    return args


def _check_number(name: str, value: object, *, above: float | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ConfigError(f"rate_limit: {name} must be a number.")
    if above is not None and value <= above:
        raise ConfigError(f"rate_limit: {name} must be above {above:g}.")
    if value < 0:
        raise ConfigError(f"rate_limit: {name} must not be negative.")
