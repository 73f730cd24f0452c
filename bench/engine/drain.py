"""The result of a run, and its clock."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """So many jobs inserted, then worked until the last one's end was committed. Seconds."""

    jobs: int
    working: float
    inserting: float = 0.0
    """0 where it was not timed."""
    cpu: float = 0.0
    """Of the worker's process while it worked; 0 where it was not measured."""

    @property
    def per_second(self) -> float:
        """Jobs worked."""
        return self.jobs / self.working

    @property
    def inserted_per_second(self) -> float:
        """Jobs inserted; 0 where that was not timed."""
        return self.jobs / self.inserting if self.inserting else 0.0

    @property
    def cpu_per_job(self) -> float:
        """Microseconds."""
        return self.cpu / self.jobs * 1e6

    def to_json(self) -> str:
        """Return one line, for the process that asked."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Return what `to_json` wrote."""
        return cls(**json.loads(line))


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """Milliseconds from the call of the insert until the worker has the job."""

    p50: float
    p99: float

    @classmethod
    def from_seconds(cls, seconds: Sequence[float]) -> Self:
        """Return the percentiles of measured times."""
        centiles = statistics.quantiles(seconds, n=100)
        return cls(p50=centiles[49] * 1000, p99=centiles[98] * 1000)


@dataclass(slots=True)
class Lap:
    """Filled in when the `with` block ends."""

    seconds: float = 0.0
    cpu: float = 0.0


@contextlib.contextmanager
def lap() -> Iterator[Lap]:
    """Take the time of a block: wall clock, and this process's CPU."""
    taken = Lap()
    start, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken.seconds, taken.cpu = time.perf_counter() - start, time.process_time() - cpu
