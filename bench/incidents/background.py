"""Random healthy systems: their queues, kinds, clients and jobs of the hours before."""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, exp, log, pi
from random import Random

from msgspec import Struct, field

MINUTE = 60.0
"""Seconds."""
DAY = 86_400.0
"""Seconds."""
PAST = 6.7 * 3_600
"""Seconds of jobs before the incident begins: more than a report reads back."""
RECENT = 90 * MINUTE
"""Seconds of them that are played job by job, so that nothing odd is left when it begins."""
AFTER = 40 * MINUTE
"""Seconds that are played after the incident began."""
_WORDS = [
    "email",
    "charge",
    "invoice",
    "thumbnail",
    "webhook",
    "report",
    "export",
    "import",
    "sync",
    "index",
    "notify",
    "cleanup",
    "refund",
    "audit",
    "digest",
    "backup",
    "score",
    "translate",
    "crawl",
    "archive",
]
_VERBS = ("send", "run", "build", "update")
_QUEUES = ("default", "mail", "hooks", "media", "billing", "reports", "imports", "search")
_SLOTS = (2, 3, 4, 5, 8, 10, 20, 50)
"""Jobs that a client works at once in a queue: usual settings, from few to many."""


class Kind(Struct, kw_only=True):
    """A kind of job and its usual behaviour."""

    name: str
    queue: str
    rate: float
    """New jobs a minute, on average over a day."""
    run: float
    """The median run in seconds."""
    spread: float
    """The standard deviation of the run's logarithm."""
    failing: float = 0.0
    """The usual share of attempts that fail (0 to 1)."""
    every: float = 0.0
    """Seconds between two jobs of a periodic kind; 0 for jobs that come at random."""
    longest: float = 50.0
    """Seconds; River's default limit of a run is a minute."""
    later: float = 0.0
    """The share of jobs that are scheduled for later (0 to 1)."""

    def run_seconds(self, rng: Random) -> float:
        """Return the length of one run."""
        return min(self.run * exp(self.spread * rng.gauss(0, 1)), self.longest)

    @property
    def mean_run(self) -> float:
        """Return the average run in seconds."""
        return min(self.run * exp(self.spread**2 / 2), self.longest)


class Client(Struct, kw_only=True):
    """A client, and its slots by queue."""

    id: str
    slots: dict[str, int] = field(default_factory=dict)


class Background(Struct, kw_only=True):
    """A healthy system. Times are seconds since the incident begins, negative before."""

    seed: int
    kinds: list[Kind]
    clients: list[Client]
    phase: float
    """The time of day when the incident begins, in days since the busiest one."""
    swing: float
    """How much less comes at night (0 to 1)."""
    reporting: bool
    """Whether its clients send heartbeats: those of riverui do."""

    @property
    def queues(self) -> list[str]:
        """Return its queues by name."""
        return sorted({kind.queue for kind in self.kinds})

    def of(self, queue: str) -> list[Kind]:
        """Return the kinds of a queue."""
        return [kind for kind in self.kinds if kind.queue == queue]

    def slots(self, queue: str) -> int:
        """Return how many jobs of a queue run at once at most."""
        return sum(client.slots.get(queue, 0) for client in self.clients)

    def share_of_day(self, at: float) -> float:
        """Return how much comes at that time, as a share of the average."""
        return 1 + self.swing * cos(2 * pi * (self.phase + at / DAY))

    def pace(self, queue: str) -> float:
        """Return how many jobs of a queue come in a minute when the incident begins."""
        return sum(k.rate * (1 if k.every else self.share_of_day(0)) for k in self.of(queue))

    def load(self, queue: str) -> float:
        """Return how many slots of a queue are in use on average when the incident begins."""
        share = self.share_of_day(0)
        return sum(k.rate * share * k.mean_run * (1 + k.failing) / MINUTE for k in self.of(queue))

    def arrivals(self, kind: Kind, since: float, until: float, rng: Random) -> Iterator[float]:
        """Yield when jobs of a kind are inserted."""
        if kind.every:
            at = since + kind.every * rng.random()
            while at < until:
                yield at
                at += kind.every
            return
        most = kind.rate * (1 + self.swing) / MINUTE
        at = since + rng.expovariate(most)
        while at < until:
            if rng.random() * (1 + self.swing) < self.share_of_day(at):
                yield at
            at += rng.expovariate(most)


def make(seed: int) -> Background:
    """Return the background of this seed."""
    rng = Random(f"background {seed}")
    names = rng.sample(_QUEUES + tuple(f"queue_{n}" for n in range(4)), rng.randint(1, 12))
    total = exp(rng.uniform(log(2), log(200)))
    count = max(len(names), round(exp(rng.uniform(0, log(40)))))
    words = rng.sample([f"{word}_{verb}" for word in _WORDS for verb in _VERBS], count)
    shares = [rng.paretovariate(0.8) ** 0.7 for _ in words]
    kinds = []
    for place, (word, share) in enumerate(zip(words, shares, strict=True)):
        queue = names[place] if place < len(names) else rng.choice(names)
        kinds.append(_kind(word, queue, total * share / sum(shares), rng))
    queue = rng.choice(names)
    kinds.append(
        Kind(
            name="heartbeat_tick",
            queue=queue,
            rate=1.0,
            every=rng.choice((30.0, 60.0, 60.0, 120.0, 300.0)),
            run=exp(rng.uniform(log(0.05), log(2))),
            spread=0.3,
        )
    )
    kinds[-1].rate = MINUTE / kinds[-1].every
    background = Background(
        seed=seed,
        kinds=kinds,
        clients=[],
        phase=rng.random(),
        swing=rng.choice((0.0, 0.3, 0.6)),
        reporting=rng.random() < 0.6,
    )
    _staff(background, names, rng)
    return background


def _kind(name: str, queue: str, rate: float, rng: Random) -> Kind:
    failing = 0.0 if rng.random() < 0.4 else min(0.2, rng.expovariate(30))
    if rng.random() < 0.08:
        failing = rng.uniform(0.05, 0.2)
    return Kind(
        name=name,
        queue=queue,
        rate=rate,
        run=exp(rng.uniform(log(0.02), log(12))),
        spread=rng.uniform(0.2, 0.9),
        failing=failing,
        later=rng.choice((0.0, 0.0, 0.0, 0.1)),
    )


def _staff(background: Background, queues: list[str], rng: Random) -> None:
    """Give a background clients with enough slots: a quarter to two thirds of them are in use."""
    hosts = rng.randint(1, 5)
    background.clients = [
        Client(id=f"{_host(rng)}_2026_03_{rng.randint(1, 28):02d}T10_{n:02d}_00_000000")
        for n in range(hosts)
    ]
    for queue in queues:
        peak = background.load(queue) / background.share_of_day(0) * (1 + background.swing)
        wanted = peak / rng.uniform(0.25, 0.65) + 0.5
        serving = rng.sample(background.clients, rng.choice((hosts, hosts, max(1, hosts - 1))))
        each = next((n for n in _SLOTS if n * len(serving) >= wanted), 100)
        for client in serving:
            client.slots[queue] = each


def _host(rng: Random) -> str:
    if rng.random() < 0.5:
        return f"ip-10-{rng.randint(0, 9)}-{rng.randint(0, 255)}-{rng.randint(2, 250)}"
    return f"worker-{rng.getrandbits(32):08x}-{rng.getrandbits(20):05x}"
