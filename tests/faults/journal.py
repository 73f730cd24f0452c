"""What the soak kind did, as it wrote it down itself: the truth, whatever became of its process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing that happened to one attempt."""

    what: str
    """start, then end (for good), fail, snooze or stop (interrupted)."""
    job: int
    attempt: int
    process: str


@dataclass(slots=True)
class Journal:
    """Everything that happened, by job."""

    jobs: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Journal:
        """Return the journal of the files of several processes."""
        journal = cls()
        for path in paths:
            for line in path.read_text().splitlines():
                what, job, attempt = line.split()
                journal.jobs[int(job)].append(
                    Entry(what=what, job=int(job), attempt=int(attempt), process=path.stem)
                )
        return journal

    @classmethod
    def below(cls, folder: Path) -> Journal:
        """Return the journal of all files of a folder."""
        return cls.read(folder.iterdir())

    def count(self, what: str) -> Counter[int]:
        """Return how often that happened to each job."""
        return Counter(
            entry.job for entries in self.jobs.values() for entry in entries if entry.what == what
        )
