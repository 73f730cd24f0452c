"""How many jobs of a queue, or of each of its partitions, may run at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from riverui.domain.jobs import JsonText
from riverui.domain.json import read_object
from riverui.domain.partitions import Partition, PartitionConfig
from riverui.errors import ConfigError

MAX_SLOTS = 2**31 - 1
"""A limit's largest number, as in River UI."""
METADATA_KEY = "concurrency"
"""Where a queue's metadata holds limits that override those of the clients (River UI's key)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrencyConfig:
    """How many jobs run at once, of a queue or of each partition of it. 0 means no limit.

    Raises ConfigError for invalid limits.
    """

    global_limit: int = 0
    """In all clients of the database together."""
    local_limit: int = 0
    """In each client."""
    partition: PartitionConfig = field(default_factory=PartitionConfig)
    """What the limits apply to, each counted separately; by default the whole queue."""

    def __post_init__(self) -> None:
        for name in ("global_limit", "local_limit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{name} must be a whole number.")
            if not 0 <= value <= MAX_SLOTS:
                raise ConfigError(f"{name} must be a whole number from 0 (no limit) on.")
        if not isinstance(self.partition, Partition):
            raise ConfigError("partition must be a PartitionConfig.")

    @property
    def limits(self) -> bool:
        """Whether any limit is set."""
        return bool(self.global_limit or self.local_limit)

    @classmethod
    def read(cls, found: object) -> Self:
        """Return limits read from River UI's JSON; a null counts as a missing field. Raise
        ConfigError if the JSON has another shape.
        """
        limits = _fields(found, "concurrency", ("global_limit", "local_limit", "partition"))
        partition = _fields(limits.pop("partition", {}), "partition", ("by_args", "by_kind"))
        by_args, by_kind = partition.get("by_args"), partition.get("by_kind", False)
        if by_args is not None and not isinstance(by_args, list):
            raise ConfigError("by_args must be a list of names of args.")
        if not isinstance(by_kind, bool):
            raise ConfigError("by_kind must be true or false.")
        return cls(partition=Partition(by_args=by_args, by_kind=by_kind), **limits)

    def as_json(self) -> str:
        """Return the limits as JSON in River UI's shape."""
        by_args = self.partition.by_args
        return json.dumps(
            {
                "global_limit": self.global_limit,
                "local_limit": self.local_limit,
                "partition": {
                    "by_args": None if by_args is None else list(by_args),
                    "by_kind": self.partition.by_kind,
                },
            }
        )


def override_of(metadata: JsonText) -> ConcurrencyConfig | None:
    """Return the limits that a queue's metadata sets, or None if it sets none. Raise ConfigError if
    they cannot be read.
    """
    if METADATA_KEY not in metadata.text:
        return None
    if not metadata.complete:
        raise ConfigError("the queue's metadata is too long to be read.")
    found = read_object(metadata.text).get(METADATA_KEY)
    return None if found is None else ConcurrencyConfig.read(found)


def _fields(found: object, name: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise ConfigError(f"{name} must be an object.")
    return {key: found[key] for key in known if found.get(key) is not None}
