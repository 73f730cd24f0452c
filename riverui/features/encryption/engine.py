"""Encrypts the args of jobs in the database: River Pro's EncryptHook, with NaCl's secretbox."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from riverui.domain.jobs import JobRow
from riverui.domain.sealed_args import is_sealed
from riverui.engine.hooks import DoInner, Plugin
from riverui.engine.insert.insert_opts import InsertRequest
from riverui.errors import ConfigError
from riverui.features.encryption.domain import ArgsKeys


class Encryption(Plugin):
    """A plugin that encrypts args before they are inserted, and decrypts them for workers.

    `keys` are 32 bytes each: the first encrypts, and each decrypts what it has encrypted. With
    `include_kinds` only jobs of these kinds are encrypted, with `exclude_kinds` all others, with
    `decrypt_only` none. Encrypted args are decrypted whatever the job's kind; plain args are worked
    as they are. Raises ConfigError for invalid arguments, and if the extra `crypto` is not
    installed.

    It should be the first in `ClientConfig.plugins`: plugins before it, such as a worker's own
    middleware, see encrypted args.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        *,
        include_kinds: Collection[str] | None = None,
        exclude_kinds: Collection[str] | None = None,
        decrypt_only: bool = False,
    ) -> None:
        if include_kinds is not None and exclude_kinds is not None:
            raise ConfigError("Encryption: give include_kinds or exclude_kinds, not both.")
        for kinds in (include_kinds, exclude_kinds):
            if isinstance(kinds, str):
                raise ConfigError(f"Encryption: kinds must be a list, not {kinds!r}.")
        self._keys = ArgsKeys(keys)
        self._include = None if include_kinds is None else frozenset(include_kinds)
        self._exclude = frozenset(exclude_kinds or ())
        self._decrypt_only = decrypt_only

    def __repr__(self) -> str:
        return f"<Encryption with {len(self.key_ids)} keys>"

    @property
    def key_ids(self) -> Sequence[str]:
        """Return the prefix of encrypted args for each key, to count them in SQL."""
        return self._keys.ids

    def encrypts(self, kind: str) -> bool:
        """Return whether new jobs of this kind are encrypted."""
        if self._decrypt_only or kind in self._exclude:
            return False
        return self._include is None or kind in self._include

    def insert_begin(self, request: InsertRequest) -> None:
        """Encrypt the args, unless they are encrypted already. The job's unique key has been
        computed from the plain args before.
        """
        if self.encrypts(request.kind) and not is_sealed(request.encoded_args):
            request.encoded_args = self._keys.seal(request.encoded_args)

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        """Work the job with decrypted args; raise DecryptionError if none of the keys fits."""
        await do_inner(self.opened(job))

    def opened(self, job: JobRow) -> JobRow:
        """Return the job with decrypted args; raise DecryptionError if none of the keys fits."""
        return job._replace(args=self._keys.open(job.args)) if is_sealed(job.args) else job
