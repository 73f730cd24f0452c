"""A job's sequence by its metadata, and the job's place there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from riverui.domain.json import read_object

SEQ_KEY = "seq_key"
"""The metadata key for the sequence's key, as in River Pro."""
SEQUENCE = "riverui:sequence"
"""The metadata key that marks a job of one of riverui's sequences, with its options."""
MARK_TEXT = f'"{SEQUENCE}"'
"""What the metadata text of such a job contains, to skip parsing others."""
MAX_KEY = 200
"""Longest key, in characters; a kind and a hash are shorter."""


class SequenceJob(Struct, frozen=True, kw_only=True):
    """Another job of a sequence."""

    id: int
    state: str | None
    """None if its row is missing."""
    kind: str = ""


class SequencePlace(Struct, frozen=True, kw_only=True):
    """A job's place in its sequence."""

    key: str
    head_id: int | None
    """The job that the others wait for; None if the next one is yet to be found, or no job of the
    key waits.
    """
    head_state: str | None
    """None if there is no head, or its row is missing."""
    halted_at: datetime | None
    """Since when a cancelled or discarded head has halted the sequence; None if it has not."""
    waiting: bool
    """Whether the job waits behind the head."""
    ahead: int
    """Waiting jobs before it, without the head; up to `cap`."""
    behind: int = 0
    """Waiting jobs with a higher id; up to `cap`."""
    cap: int = 1000
    before: Sequence[SequenceJob] = ()
    """The nearest waiting jobs before it, by id."""
    after: Sequence[SequenceJob] = ()
    """The nearest waiting jobs after it."""
    ours: bool = True
    """Whether riverui moves the sequence on; otherwise River Pro does, and only the key is
    known.
    """


def sequence_key_of(metadata: str) -> str | None:
    """Return the key of a job's sequence by its metadata; None if there is none.

    A key that is not text, or too long, is ignored.
    """
    if MARK_TEXT not in metadata:
        return None
    found = read_object(metadata)
    key = found.get(SEQ_KEY)
    if SEQUENCE not in found or not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        return None
    return key
