"""The options that put a job into a sequence, and the resulting metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from riverui.engine.args.job_args import unique_form
from riverui.engine.args.unique import unique_args
from riverui.errors import InsertError
from riverui.features.sequences.domain import SEQ_KEY, SEQUENCE

_HASH_CHARACTERS = 32
"""Hexadecimal digits of a key's hash: 128 bits, so that no two keys collide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceOpts:
    """Which jobs run one at a time, in the order of their insertion (River Pro's SequenceOpts): by
    default those of the same kind.
    """

    by_args: bool | Sequence[str] | None = False
    """True: only jobs with equal args. A list: jobs with equal values of these top-level keys."""
    by_queue: bool = False
    """Whether each queue has its own sequence."""
    exclude_kind: bool = False
    """Whether jobs of other kinds are in the same sequence; needs another option besides."""
    continue_on_cancelled: bool = False
    """Whether the next job runs after this one was cancelled; otherwise the sequence halts."""
    continue_on_discarded: bool = False
    """The same for a discarded job."""

    def check(self) -> None:
        """Raise InsertError for options with which no job could be inserted."""
        by_args = self.by_args
        if isinstance(by_args, str) or not (
            isinstance(by_args, bool | None) or all(isinstance(key, str) for key in by_args)
        ):
            raise InsertError("sequence.by_args must be True, or a list of keys")
        if self.exclude_kind and not (by_args or self.by_queue):
            raise InsertError("sequence.exclude_kind needs by_args or by_queue beside it")

    def metadata(self, args: object, encoded: str, kind: str, queue: str) -> dict[str, Any]:
        """Return the metadata of a job in a sequence: the sequence's key, and its options.

        The key is the kind, followed by a hash of the args and the queue if they are used: args may
        be secret, and long.
        """
        label = "" if self.exclude_kind else kind
        text = ""
        if self.by_args:
            keys = () if isinstance(self.by_args, bool) else tuple(sorted(set(self.by_args)))
            # dict, as the args' type may mark fields as Unique.
            text += f"&args={unique_args(unique_form(args, encoded), dict, keys)}"
        if self.by_queue:
            text += f"&queue={queue}"
        if text:
            label += f":{hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]}"
        options = {
            name: True
            for name in ("continue_on_cancelled", "continue_on_discarded")
            if getattr(self, name)
        }
        return {SEQ_KEY: label, SEQUENCE: options}
