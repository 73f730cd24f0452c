"""Make the keys of sequences, and the metadata of a job in one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from riverui.engine.args.job_args import unique_form
from riverui.engine.args.unique import unique_args
from riverui.errors import InsertError
from riverui.features.sequences.domain import SEQ_KEY, SEQUENCE

if TYPE_CHECKING:
    from riverui.engine.insert.insert_opts import SequenceOpts

_HASH_CHARACTERS = 32
"""Hexadecimal digits of a key's hash: 128 bits, so that no two are the same."""


class Sequencing(NamedTuple):
    """SequenceOpts, checked."""

    by_args: bool
    keys: tuple[str, ...]
    """Top-level keys of the args that count; empty for all of them."""
    by_queue: bool
    exclude_kind: bool
    options: dict[str, bool]
    """Those of the metadata, besides the key."""


def sequencing(opts: SequenceOpts | None) -> Sequencing | None:
    """Return the options checked, None for None; InsertError for invalid ones."""
    if opts is None:
        return None
    by_args = opts.by_args
    if isinstance(by_args, str) or not (
        isinstance(by_args, bool | None) or all(isinstance(key, str) for key in by_args)
    ):
        raise InsertError("sequence.by_args must be True, or a list of keys")
    keys = () if isinstance(by_args, bool | None) else tuple(sorted(set(by_args)))
    if opts.exclude_kind and not (by_args or opts.by_queue):
        raise InsertError("sequence.exclude_kind needs by_args or by_queue beside it")
    options = {
        name: True
        for name in ("continue_on_cancelled", "continue_on_discarded")
        if getattr(opts, name)
    }
    return Sequencing(bool(by_args), keys, bool(opts.by_queue), bool(opts.exclude_kind), options)


def sequence_metadata(
    sequence: Sequencing, args: object, encoded: str, kind: str, queue: str
) -> dict[str, Any]:
    """Return the metadata of a job in a sequence: the key of that, and its options.

    The key is the kind, then a hash of the args and the queue where these count: args may be
    secret, and long.
    """
    label = "" if sequence.exclude_kind else kind
    text = ""
    if sequence.by_args:
        # dict, as the args' own type may mark fields as Unique.
        text += f"&args={unique_args(unique_form(args, encoded), dict, sequence.keys)}"
    if sequence.by_queue:
        text += f"&queue={queue}"
    if text:
        label += f":{hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]}"
    return {SEQ_KEY: label, SEQUENCE: sequence.options}
