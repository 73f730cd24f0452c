"""What a job's metadata says of the sequence that it is in, and where it stands there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from riverui.domain.json import read_object

SEQ_KEY = "seq_key"
"""The metadata key that holds the sequence's own key: River Pro's."""
SEQUENCE = "riverui:sequence"
"""The metadata key that marks a job that riverui has put into a sequence, with its options."""
MARKED = f'"{SEQUENCE}"'
"""What the metadata of such a job has somewhere in its text; others may too, but few do."""
MOST_KEY = 200
"""Characters of a key: a kind and a hash are less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceJob:
    """Another job of a sequence."""

    id: int
    state: str | None
    """None where its row is gone."""
    kind: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequencePlace:
    """Where a job stands in its sequence."""

    key: str
    head_id: int | None
    """The job that the others wait for; None where the next one is being looked for, or the key
    has no jobs that wait.
    """
    head_state: str | None
    """None where there is no head, or its row is gone."""
    halted_at: datetime | None
    """Since when a cancelled or discarded head holds up the others; None where it does not."""
    waiting: bool
    """Whether the job waits behind the head."""
    ahead: int
    """Jobs that wait before it, besides the head; up to `cap`."""
    behind: int = 0
    """Jobs that wait with a higher id; up to `cap`."""
    cap: int = 1000
    before: Sequence[SequenceJob] = ()
    """The nearest of those that wait before it, by id."""
    after: Sequence[SequenceJob] = ()
    """The nearest of those behind it."""
    ours: bool = True
    """Whether riverui moves the sequence; River Pro otherwise, and only the key is known."""


def sequence_key_of(metadata: str) -> str | None:
    """Return the key of the sequence that a job is in, by its metadata; None where it is in none.

    A key that is no text, or too long, is none.
    """
    if MARKED not in metadata:
        return None
    found = read_object(metadata)
    key = found.get(SEQ_KEY)
    if SEQUENCE not in found or not isinstance(key, str) or not 0 < len(key) <= MOST_KEY:
        return None
    return key
