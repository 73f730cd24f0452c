"""Partitions of a queue's jobs for limits, rates and shares: by args, by kind or by both.

Jobs of one partition have the same *key*, a text that the database computes of a job:

    Partition()                                          ""
    Partition(by_kind=True)                              "mail_send"
    Partition(by_args=("customer_id",))                  '{"customer_id": 42}'
    Partition(by_args=("customer_id",), by_kind=True)    'mail_send {"customer_id": 42}'
    Partition(by_args=())                                '{"customer_id": 42, "to": "…"}', all args

A missing argument is `null` in the key. Args of more than 250 bytes are cut after 100 characters,
followed by a hash of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from riverui.errors import ConfigError

MAX_ARGS = 10
"""Maximum names of args in a partition: more make unreadable keys."""
MAX_ARG_CHARACTERS = 200
"""Maximum characters of such a name: far more than names of fields have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """How the jobs of a queue are partitioned; all are one partition by default.

    Raises ConfigError for names that args cannot have.
    """

    by_args: Sequence[str] | None = None
    """Names of args as in the JSON, sorted; an empty list means all args, None not by args."""
    by_kind: bool = False

    def __post_init__(self) -> None:
        if self.by_args is None:
            return
        if isinstance(self.by_args, str) or not all(isinstance(n, str) for n in self.by_args):
            raise ConfigError("by_args must be a list of names of args.")
        for name in self.by_args:
            if not 0 < len(name) <= MAX_ARG_CHARACTERS or "\0" in name or not name.isprintable():
                raise ConfigError(
                    f"by_args: {name[:40]!r} is not a name of an arg: 1 to {MAX_ARG_CHARACTERS}"
                    " printable characters."
                )
        names = tuple(sorted(set(self.by_args)))
        if len(names) > MAX_ARGS:
            raise ConfigError(f"by_args must hold at most {MAX_ARGS} names.")
        object.__setattr__(self, "by_args", names)

    @property
    def whole(self) -> bool:
        """Whether all jobs of the queue are one partition."""
        return self.by_args is None and not self.by_kind

    @property
    def index_name(self) -> str:
        """Return the name of the index by which jobs of a key are found."""
        digest = sha256(repr((self.by_args, self.by_kind)).encode()).hexdigest()
        return f"riverui_job_partition_{digest[:16]}"

    @property
    def words(self) -> str:
        """Return the partition in words, as part of a sentence."""
        by = ["kind"] if self.by_kind else []
        if self.by_args is not None:
            by += [", ".join(self.by_args) or "all args"]
        return " and ".join(by) or "nothing"

    def as_object(self) -> dict[str, Any]:
        """Return it for JSON."""
        by_args = self.by_args
        return {"by_args": None if by_args is None else list(by_args), "by_kind": self.by_kind}

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Partition:
        """Return the partition in an object from JSON. Raises ConfigError, or one of ODD_VALUE, for
        another value.
        """
        return cls(by_args=value["by_args"], by_kind=value["by_kind"] is True)


PartitionConfig = Partition
"""River's name for it in settings."""

WHOLE = Partition()
"""One partition of all jobs: their key is empty."""
