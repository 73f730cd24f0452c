"""What a job's metadata says of the sequence that it is in."""

from __future__ import annotations

from riverui.domain.stored_json import read_object

SEQ_KEY = "seq_key"
"""The metadata key that holds the sequence's own key: River Pro's."""
SEQUENCE = "riverui:sequence"
"""The metadata key that marks a job that riverui has put into a sequence, with its options."""
MARKED = f'"{SEQUENCE}"'
"""What the metadata of such a job has somewhere in its text; others may too, but few do."""
MOST_KEY = 200
"""Characters of a key: a kind and a hash are less."""


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
