"""How the jobs of a queue are told apart for limits, rates and shares: by args, by kind or by both.

Jobs of one partition have the same *key*, a text that the database makes of a job:

    Partition()                                          ""
    Partition(by_kind=True)                              "mail_send"
    Partition(by_args=("customer_id",))                  '{"customer_id": 42}'
    Partition(by_args=("customer_id",), by_kind=True)    'mail_send {"customer_id": 42}'
    Partition(by_args=())                                '{"customer_id": 42, "to": "…"}', all args

An argument that a job lacks is `null` in its key. Args of more than 250 bytes are cut after 100
characters, and a hash of all of them follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from riverui.errors import ConfigError

MOST_ARGS = 10
"""Names of args in one partition: more would make keys that nobody can read."""
MOST_ARG_CHARACTERS = 200
"""Characters of such a name: far more than names of fields have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """How the jobs of a queue are told apart; not at all by default.

    Raises ConfigError for names that cannot be those of args.
    """

    by_args: Sequence[str] | None = None
    """Names of args as in the JSON, sorted; none of them means all args, None not by args."""
    by_kind: bool = False

    def __post_init__(self) -> None:
        if self.by_args is None:
            return
        if isinstance(self.by_args, str) or not all(isinstance(n, str) for n in self.by_args):
            raise ConfigError("by_args must be a list of names of args.")
        for name in self.by_args:
            if not 0 < len(name) <= MOST_ARG_CHARACTERS or "\0" in name or not name.isprintable():
                raise ConfigError(
                    f"by_args: {name[:40]!r} is no name of an arg: 1 to {MOST_ARG_CHARACTERS}"
                    " printable characters."
                )
        names = tuple(sorted(set(self.by_args)))
        if len(names) > MOST_ARGS:
            raise ConfigError(f"by_args must hold at most {MOST_ARGS} names.")
        object.__setattr__(self, "by_args", names)

    @property
    def whole(self) -> bool:
        """Whether all jobs of the queue are one partition."""
        return self.by_args is None and not self.by_kind

    @property
    def index_name(self) -> str:
        """Return the name of the index by which jobs of each key are found."""
        digest = sha256(repr((self.by_args, self.by_kind)).encode()).hexdigest()
        return f"riverui_job_partition_{digest[:16]}"

    @property
    def words(self) -> str:
        """Return what jobs are told apart by, as part of a sentence."""
        by = ["kind"] if self.by_kind else []
        if self.by_args is not None:
            by += [", ".join(self.by_args) or "all args"]
        return " and ".join(by) or "nothing"


PartitionConfig = Partition
"""The name that settings have for it."""

WHOLE = Partition()
"""All jobs of the queue together: the key of each is empty."""
