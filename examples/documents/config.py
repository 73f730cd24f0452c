"""Settings of a deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, get_type_hints

from examples.documents.jobs import Embedding


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings; each can be set in the environment, by its name in capitals."""

    database_url: str = ""
    webhook_secret: str = "river"  # noqa: S105
    inbox: str = ""
    """A folder with one folder per customer; none by default."""
    first_files: int = 0
    """How many generated files are uploaded at the start."""
    pages_per_replica: int = 40
    """Pages that each replica works at once."""
    pages_per_customer: int = 30
    """Pages of each customer that all replicas together work at once."""
    embeddings_per_second: int = 200
    """The limit of the model's vendor, for all replicas together."""
    read_seconds: float = 0.05
    embed_seconds: float = 0.05
    retry_seconds: float = 2.0
    heartbeat_seconds: float = 5.0
    """Jobs of a dead process run in another one after three and a half times as long."""
    embedding_model: str = "text-1"

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings of an environment."""
        types = get_type_hints(cls)
        given = {name: environ[name.upper()] for name in types if name.upper() in environ}
        return cls(**{name: types[name](text) for name, text in given.items()})

    @property
    def embedding(self) -> Embedding:
        """How pages of new uploads are embedded."""
        return Embedding(self.embedding_model)

    def inbox_folders(self) -> Iterator[Path]:
        """Yield the existing folders of customers."""
        if self.inbox:
            yield from sorted(path for path in Path(self.inbox).iterdir() if path.is_dir())
