"""Deals the jobs of a queue in turn to the keys of a partition, such as tenants.

Each client goes round the keys on its own, continuing where its last fetch stopped: as each is
fair, all are together. With the partition's index, keys are found by it, however many jobs the
others have; without, only among the first waiting jobs of the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from riverui.engine.pilot import Feature
from riverui.engine.work.candidate_fetch import Chooser
from riverui.features.fair_shares.domain import FairShare, Ring
from riverui.storage.stores.candidates import Candidate, KeyPage, KeyRange

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

_FEW_KEYS = 100
"""Up to so many keys are always read together: a millisecond."""
_MAX_KEYS = 1_000
"""Keys per read: some 20 ms."""
_MAX_ROWS = 10_000
"""Jobs per read."""
_LOOKS = 8
"""Reads per fetch; after these, the chosen jobs are worked first."""


class FairShares(Feature):
    """Fetches the jobs of queues with a `fair_share` from each key in turn."""

    def chooser(self, work: Producer) -> Chooser | None:
        """Return the chooser for the queue, if it has fair shares."""
        share = work.config.fair_share
        return None if share is None else ShareChooser(work, share)


class ShareChooser(Chooser):
    """Deals the jobs of one queue.

    Few keys are read all together. Of many, each read covers the next ones.
    """

    active = True
    spread = True

    def __init__(self, work: Producer, share: FairShare) -> None:
        self.partition = share.partition
        self._asked = KeyRange(partition=share.partition, per_key=1, keys=1)
        self._dealt = 0
        """Jobs dealt from the last read."""
        self._filled = False
        """Whether they filled the room."""
        self._keys: int | None = 0
        """The number of keys at the last complete read; None if there are too many to read all."""
        self._last: str | None = None
        """The last key read; None if none follow it."""
        self._laps = self._looks = 0
        """How often this fetch has passed the end of the keys, and has read."""
        self._longest = 0
        """Jobs read of the key with the most jobs."""
        self._ring = Ring(share)
        self._work = work

    def key_range(self, room: int, *, again: bool) -> KeyRange | None:
        """Return the keys to read next; see Chooser."""
        if not again:
            self._laps = self._looks = 0
        elif not self._goes_on():
            return None
        if self._looks >= _LOOKS:
            self._work.wake()
            return None
        self._looks += 1
        few = min(max(2 * room, _FEW_KEYS), _MAX_KEYS)
        if self._keys is not None and self._keys <= few:
            keys, likely, after = few, self._keys or few, ""
        else:
            keys = likely = min(room + room // 4 + 10, _MAX_KEYS)
            after = self._ring.start
        per_key = self._ring.most(room, likely)
        keys = max(1, min(keys, _MAX_ROWS // per_key))
        self._asked = KeyRange(partition=self.partition, per_key=per_key, keys=keys, after=after)
        self._dealt, self._filled = 0, False
        return self._asked

    def looked(self, page: KeyPage | None) -> None:
        """Record whether all keys were read."""
        self._last, self._longest = None, 0
        if page is None:
            # All keys among the first waiting jobs were read.
            self._asked = replace(self._asked, after="")
        else:
            self._last = page.last_key
        if not self._asked.after:
            self._keys = 0 if self._whole else None

    async def choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        """Return the candidates whose turn it is."""
        waiting: defaultdict[str, list[Candidate]] = defaultdict(list)
        for candidate in candidates:
            waiting[candidate.keys[self.partition]].append(candidate)
        self._longest = max(map(len, waiting.values()))
        if self._whole:
            self._keys = len(waiting)
        dealt = self._ring.deal(waiting, room, lambda candidate: True, whole=self._whole)
        self._dealt, self._filled = len(dealt), len(dealt) >= room
        return dealt

    def lost(self, candidates: Sequence[Candidate]) -> None:
        """Make up for jobs that another client took: it dealt them in its own round."""
        for candidate in candidates:
            self._ring.owe(candidate.keys[self.partition])

    @property
    def _whole(self) -> bool:
        """Whether all keys were read together."""
        return not self._asked.after and self._last is None

    def _goes_on(self) -> bool:
        """Continue after the last read, and return whether there may be more jobs to deal."""
        if self._filled:
            return True
        if self._whole:
            return self._dealt > 0 and self._longest >= self._asked.per_key
        if self._last is not None:
            self._ring.skip_to(self._last)
            return True
        self._ring.begin_again()
        self._laps += 1
        return self._laps == 1
