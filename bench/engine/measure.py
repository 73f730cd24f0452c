"""riverui's engine beside the real River, other queues and Postgres itself: the same server, turn
by turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.engine import floors, installed, river
from bench.engine.databases import Databases
from bench.engine.drain import Drain, Latency
from bench.engine.fleet import measure_fleet
from bench.engine.held_runs import HeldRun, run_go, worked
from bench.engine.idle import measure_idle
from bench.report import Check, check
from riverui.engine.event_loop import loop_factory
from tests.interop.worker import build

PARTS = (
    "burn",
    "sustained",
    "continuous",
    "installed",
    "processes",
    "inserts",
    "latency",
    "idle",
    "fleet",
    "features",
    "limits",
    "rates",
    "isolation",
    "held",
)

_JOBS = 50_000
"""Jobs of a run: some seconds of work."""
_PEERS = {
    "pgqueuer": (30_000, 1.5),
    "chancy": (10_000, 5.0),
    "saq": (3_000, 25.0),
    "procrastinate": (3_000, 25.0),
}
"""How many jobs each of them gets, and how many times as fast we want to be."""
_INSERT_BATCH = 1_000
"""Jobs that one call inserts, as in programs that insert many."""
_FEATURE_JOBS = 20_000
"""Jobs of a run of features."""
_JOIN_TASKS = 10_000
"""Tasks under one join."""
_LIMIT_JOBS = 6_000
"""Jobs of a run of limits: 7.5 s at the least."""
_INSTALLED = {4: 20.0, 16: 20.0, 100: 12.0}
"""Slots of a client with default settings, and how many times as fast as Go's we want to be."""
_INSTALLED_SECONDS = (0.0, 0.001, 0.01)
"""How long its jobs take."""
_COMPUTING_PROCESSES = (1, 2, 3)
"""Clients whose jobs need the processor."""
_INSTALLED_MOST = 10_000
"""Jobs a second up to which its slots are to be busy: more need most of a processor."""
_RATES = (10, 1_000, 10_000)
"""Limits that are held to, in jobs a second."""
_RATE_SECONDS = 60
"""For which they are."""
_SHARE_SECONDS = 30
"""For which shares are dealt: some forty turns, of which each client may be one ahead."""
_FLEET_SECONDS = 60.0
"""For which the clients of a fleet are watched."""
_FLEET_RATE = 500
"""Jobs a second that its working clients get: few for ten, so that none is behind."""
_ISOLATED_JOBS = 3_000
"""No-op jobs of a run in threads and in processes."""
_COMPUTING_JOBS = 100
"""Jobs that compute, each for some 20 ms."""
_COMPUTING_LOOPS = 400_000
"""Of each of them."""
_HELD_JOBS = 1_000_000
"""Jobs worked before while an old transaction is open: an hour of 280 a second."""
_HELD_RUNS = {4: (150, 200), 100: (1_500, 6_000), 2_000: (1_500, 40_000)}
"""By slots: jobs that come one by one, and jobs of a backlog."""
_HELD_GO_SECONDS = 20.0
"""For which Go River works a backlog."""
_OURS = "riverui"
_FLOOR = "SQL loop, two backends"


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """One contender of a table; each of its runs gets its own database."""

    run: Callable[[str], Drain]
    finished: int | None = 0
    """Finished jobs in the table before; None for a database without River's tables."""
    note: str = ""
    runs: list[Drain] = field(default_factory=list)

    def median(self, figure: Callable[[Drain], float]) -> float:
        """Return the median of a figure of all runs."""
        return statistics.median(map(figure, self.runs))

    @property
    def per_second(self) -> float:
        """Jobs worked, the median run."""
        return self.median(lambda drain: drain.per_second)


def measure_engine(server: str, parts: Sequence[str], *, rounds: int) -> list[Check]:
    """Print a table for each part; return the targets."""
    databases = Databases(server)
    measures: Mapping[str, Callable[[Databases, int], list[Check]]] = {
        "burn": _burn,
        "sustained": _sustained,
        "continuous": _continuous,
        "installed": _installed,
        "processes": _processes,
        "inserts": _inserts,
        "latency": _latency,
        "idle": _idle,
        "fleet": _fleet,
        "features": _features,
        "limits": _limits,
        "rates": _rates,
        "isolation": _isolation,
        "held": _held,
    }
    try:
        return [
            target
            for part in PARTS
            if part in parts
            for target in measures[part](databases, rounds)
        ]
    finally:
        databases.close()


def _burn(databases: Databases, rounds: int) -> list[Check]:
    binary = build("river")
    runners = {
        _OURS: Runner(run=lambda url: our_run("burn_down", url, _JOBS)),
        "river bench": Runner(run=lambda url: river.burn_down(binary, url, _JOBS)),
        **{peer: _peer(peer, jobs) for peer, (jobs, _) in _PEERS.items()},
        _FLOOR: Runner(run=lambda url: floors.sql_loop(url, _JOBS)),
    }
    _turns(databases, runners, rounds)
    _print_table("burn-down of no-op jobs", runners)
    ours = runners[_OURS]
    found = [
        _ratio("burn-down against river bench", ours, runners["river bench"], 1.8),
        _ratio("burn-down against the SQL loop", ours, runners[_FLOOR], 0.75),
    ]
    found += [
        _ratio(f"burn-down against {peer}", ours, runners[peer], target)
        for peer, (_, target) in _PEERS.items()
    ]
    cpu = ours.median(lambda drain: drain.cpu_per_job)
    return [*found, check("Python CPU for a job", cpu, at_most=20, unit=" µs")]


def _sustained(databases: Databases, rounds: int) -> list[Check]:
    runners = {
        f"{_OURS}, 50,000": Runner(run=lambda url: our_run("burn_down", url, _JOBS)),
        f"{_OURS}, 300,000": Runner(run=lambda url: our_run("burn_down", url, 300_000)),
        f"{_OURS}, 50,000 beside 1,000,000 finished": Runner(
            run=lambda url: our_run("burn_down", url, _JOBS), finished=1_000_000
        ),
    }
    _turns(databases, runners, rounds)
    _print_table("burn-down, longer and beside history", runners)
    short, long, beside = runners.values()
    return [
        _ratio("300,000 jobs against 50,000", long, short, 0.8),
        _ratio("beside 1,000,000 finished jobs against an empty table", beside, short, 0.8),
    ]


def _continuous(databases: Databases, rounds: int) -> list[Check]:
    binary = build("river")
    runners = {
        _OURS: Runner(run=lambda url: our_run("continuous", url, 10)),
        "river bench": Runner(run=lambda url: river.continuous(binary, url, 10)),
    }
    _turns(databases, runners, rounds)
    _print_table("inserting and working at once, 10 s", runners)
    return [
        _ratio("continuous mode against river bench", runners[_OURS], runners["river bench"], 1.0)
    ]


def _installed(databases: Databases, rounds: int) -> list[Check]:
    """Print what clients with default settings do with a backlog; return the targets."""
    binary, checks = build("worker"), list[Check]()
    print(
        f"{'default settings':24}{'jobs/s':>9}{'Go':>9}{'ratio':>8}"
        f"{'statements a job':>18}{'Go':>9}{'of the slots':>14}{'of sleeps':>11}"
    )
    for slots, wanted in _INSTALLED.items():
        for seconds in _INSTALLED_SECONDS:
            ours, theirs, sleeps = [], [], []
            for _ in range(rounds):
                with databases.fresh() as url:
                    command = installed.ours(url, slots)
                    ours.append(installed.work(url, command, slots=slots, seconds=seconds))
                with databases.fresh() as url:
                    command = installed.go(binary, url, slots)
                    theirs.append(installed.work(url, command, slots=slots, seconds=seconds))
                sleeps.append(child("sleeps", str(slots), seconds))
            mine, go = (
                [statistics.median(figures) for figures in zip(*paces, strict=True)]
                for paces in (ours, theirs)
            )
            name = f"{slots} slots, {seconds * 1000:.0f} ms"
            share, part = mine[0] * seconds / slots, mine[0] / statistics.median(sleeps)
            print(
                f"{name:24}{mine[0]:>9,.0f}{go[0]:>9,.0f}{mine[0] / go[0]:>8.1f}"
                f"{mine[1]:>18.2f}{go[1]:>9.2f}{share:>14.2f}{part:>11.2f}",
                flush=True,
            )
            if seconds and slots / seconds <= _INSTALLED_MOST:
                checks.append(check(f"{name}: part of what sleeps can do", part, at_least=0.9))
            elif not seconds:
                ratio = mine[0] / go[0]
                checks.append(check(f"{name}: against Go", ratio, at_least=wanted, unit="×"))
                checks.append(check(f"{name}: statements a job", mine[1], at_most=1))
    print()
    return checks


def _processes(databases: Databases, rounds: int) -> list[Check]:
    """Print what one, two and three clients do, each in its own process, whose jobs need 10 ms of
    the processor; return the targets, which the processors of this machine allow.
    """
    runs: dict[int, list[float]] = {number: [] for number in _COMPUTING_PROCESSES}
    for _ in range(rounds):
        for number, found in runs.items():
            with databases.fresh() as url:
                found.append(installed.compute(url, number))
    alone, *more = (statistics.median(found) for found in runs.values())
    print(f"1 process, jobs of 10 ms CPU: {alone:.0f} jobs/s")
    checks = []
    for number, pace in zip(_COMPUTING_PROCESSES[1:], more, strict=True):
        ratio = pace / alone
        print(f"{number} processes: {pace:.0f} jobs/s, {ratio:.2f} ×")
        if number <= (os.cpu_count() or 1):
            name = f"{number} processes against one"
            checks.append(check(name, ratio, at_least=number * 5 / 6, unit="×"))
    print()
    return checks


def _inserts(databases: Databases, rounds: int) -> list[Check]:
    def inserting(rate: Callable[[str], float]) -> Runner:
        return Runner(run=lambda url: Drain(jobs=_JOBS, working=_JOBS / rate(url)))

    runners = {
        "insert_many": inserting(
            lambda url: child("insert", url, _JOBS, _INSERT_BATCH, "insert_many")
        ),
        "insert_many_fast": inserting(
            lambda url: child("insert", url, _JOBS, _INSERT_BATCH, "insert_many_fast")
        ),
        "raw COPY": inserting(lambda url: floors.raw_copy(url, _JOBS, batch=_INSERT_BATCH)),
    }
    _turns(databases, runners, rounds)
    _print_table(f"inserts of {_INSERT_BATCH:,} jobs", runners)
    return [
        _ratio("insert_many against raw COPY", runners["insert_many"], runners["raw COPY"], 0.7),
        _ratio(
            "insert_many_fast against raw COPY",
            runners["insert_many_fast"],
            runners["raw COPY"],
            0.7,
        ),
    ]


def _latency(databases: Databases, rounds: int) -> list[Check]:
    found = []
    for name, samples, pause in (("lazy", 150, 0.12), ("eager", 500, 0.005)):
        ours, raw = [], []
        for number in range(1, rounds + 1):
            with databases.fresh() as url, asyncio.Runner(loop_factory=loop_factory()) as runner:
                raw.append(runner.run(floors.listen_loop(url, samples=samples, pause=pause)))
            with databases.fresh() as url:
                ours.append(Latency(**child("latency", url, samples, pause, name)))
            print(
                f"round {number}, {name}: p99 {ours[-1].p99:.1f} ms, raw {raw[-1].p99:.1f} ms",
                file=sys.stderr,
            )
        settings = {"lazy": "default settings", "eager": "cooldown 2 ms"}[name]
        mine, floor = _middle(ours), _middle(raw)
        print(
            f"insert to start, {settings}: p50 {mine.p50:.2f} ms, p99 {mine.p99:.2f} ms;"
            f" raw LISTEN loop: p50 {floor.p50:.2f} ms, p99 {floor.p99:.2f} ms\n"
        )
        found += [
            check(
                f"insert to start, {settings}: p50 against a LISTEN loop",
                mine.p50 / floor.p50,
                at_most=2,
                unit="×",
            ),
            check(
                f"insert to start, {settings}: p99 against a LISTEN loop",
                mine.p99 / floor.p99,
                at_most=2,
                unit="×",
            ),
            check(f"insert to start, {settings}: p99", mine.p99, at_most=10, unit=" ms"),
        ]
    loaded = []
    for _ in range(rounds):
        with databases.fresh() as url:
            loaded.append(Latency(**child("loaded", url, 500, 10)))
    mine = _middle(loaded)
    print(f"insert to start, 500 jobs/s: p50 {mine.p50:.2f} ms, p99 {mine.p99:.2f} ms\n")
    return [*found, check("insert to start, 500 jobs/s: p99", mine.p99, at_most=30, unit=" ms")]


def _features(databases: Databases, rounds: int) -> list[Check]:
    """Print what features cost that are not used, that jobs of sequences and workflows do, and what
    a large workflow takes; return the targets.
    """

    def run(command: str) -> Runner:
        return Runner(run=lambda url: Drain(**feature_run(command, url, _FEATURE_JOBS)))

    runners = {
        "no features": run("bare"),
        "features unused": run("plain"),
        "1,000 sequences": run("sequences"),
        "workflows of four": run("workflows"),
    }
    _turns(databases, runners, rounds)
    _print_table("burn-down of no-op jobs, by features", runners)
    bare, plain, sequences, workflows = runners.values()
    joins = []
    for _ in range(rounds):
        with databases.fresh() as url:
            joins.append(feature_run("join", url, _JOIN_TASKS))
    inserting = statistics.median(join["inserting"] for join in joins)
    staging = statistics.median(join["staging"] for join in joins)
    return [
        _ratio("features unused against none", plain, bare, 0.97),
        _ratio("sequences against plain jobs", sequences, plain, 0.5),
        _ratio("workflows against plain jobs", workflows, plain, 0.4),
        check(f"{_JOIN_TASKS:,} tasks under one join: insert", inserting, at_most=5, unit=" s"),
        check(f"{_JOIN_TASKS:,} tasks: start of the join", staging, at_most=1, unit=" s"),
    ]


def feature_run(command: str, url: str, jobs: int) -> Any:
    """Return what one of the commands of `feature_runs.py` gives, in its own process."""
    return _ask([sys.executable, "-m", "bench.engine.feature_runs", command, url, str(jobs)])


def _limits(databases: Databases, rounds: int) -> list[Check]:
    """Print what limits of jobs at once cost; return the targets. The jobs themselves raise where
    there is one too many.
    """

    def run(command: str) -> Runner:
        return Runner(run=lambda url: Drain(**limit_run(command, url, _LIMIT_JOBS)))

    runners = {
        "no limit": run("unlimited"),
        "40 at once": run("whole"),
        "1,000 partitions, 1 of each at once": run("partitions"),
        "pgqueuer, no limit": _peer("pgqueuer_unlimited", _LIMIT_JOBS),
        "pgqueuer, 40 at once": _peer("pgqueuer_limited", _LIMIT_JOBS),
    }
    _turns(databases, runners, rounds)
    _print_table("jobs of 50 ms, 4 clients with 10 workers", runners)
    unlimited, whole, partitions, _, limited = runners.values()
    return [
        _ratio("a limit of 40 against pgqueuer's", whole, limited, 1.0),
        _ratio("a limit of 40 against none", whole, unlimited, 0.95),
        _ratio("limits of 1,000 partitions against none", partitions, unlimited, 0.95),
    ]


def limit_run(command: str, url: str, jobs: int) -> Any:
    """Return what one of the commands of `limit_runs.py` gives, in its own process."""
    return _ask([sys.executable, "-m", "bench.engine.limit_runs", command, url, str(jobs)])


def _rates(databases: Databases, rounds: int) -> list[Check]:
    checks: list[Check] = []
    for per_second in _RATES:
        with databases.fresh() as url:
            found = rate_run("rate", url, per_second, _RATE_SECONDS)
        name = f"rate limit of {per_second:,} a second"
        checks += [
            check(f"{name}: off", abs(found["off"]), at_most=2, unit=" %"),
            check(f"{name}: beyond limit and burst", found["beyond"], at_most=2, unit=" %"),
        ]
    with databases.fresh(finished=None) as url:
        program = [sys.executable, "-W", "ignore", "-m", "bench.engine.peers", "chancy_rate"]
        found = _ask([*program, url, "1000"])
    print(
        f"chancy's rate limit of 1,000 a second: {found['off']:+.1f} % off, its busiest second"
        f" {found['beyond']:+.1f} % beyond the limit and a burst of as many\n"
    )
    with databases.fresh() as url:
        found = rate_run("shares", url, 1, _SHARE_SECONDS)
    print(
        f"fair shares of 1,000 keys: {found['per_second']:,.0f} jobs a second,"
        f" {found['turns']:.1f} turns, {found['mean']:.1f} % off in the mean\n"
    )
    return [*checks, check("fair shares of 1,000 keys: off", found["off"], at_most=5, unit=" %")]


def rate_run(command: str, url: str, *arguments: float) -> Any:
    """Return what one of the commands of `rate_runs.py` gives, in its own process."""
    program = [sys.executable, "-m", "bench.engine.rate_runs", command, url]
    return _ask([*program, *map(str, arguments)])


def _isolation(databases: Databases, rounds: int) -> list[Check]:
    def run(how: str, jobs: int, loops: int) -> Runner:
        return Runner(run=lambda url: Drain(**isolation_run(how, url, jobs, loops)))

    found = []
    for title, jobs, loops in (
        ("no-op synchronous jobs, two at once", _ISOLATED_JOBS, 0),
        ("jobs of 20 ms of Python, two at once", _COMPUTING_JOBS, _COMPUTING_LOOPS),
    ):
        runners = {
            "in threads": run("thread", jobs, loops),
            "in processes": run("process", jobs, loops),
        }
        if loops:
            runners["one bare process"] = run("alone", jobs, loops)
            runners["two bare processes"] = run("apart", jobs, loops)
        _turns(databases, runners, rounds)
        _print_table(title, runners)
        threads, processes, *floor = runners.values()
        if floor:
            alone, apart = floor
            print(f"two bare processes against one: {apart.per_second / alone.per_second:.2f} ×\n")
            found.append(_ratio("computing in processes against threads", processes, threads, 1.7))
        else:
            each = (1 / processes.per_second - 1 / threads.per_second) * 1e6
            found.append(check("isolation of a no-op job", each, at_most=500, unit=" µs"))
    return found


def isolation_run(how: str, url: str, jobs: int, loops: int) -> Any:
    """Return what a run of `isolation_runs.py` gives, in its own process."""
    program = [sys.executable, "-m", "bench.engine.isolation_runs", how, url]
    return _ask([*program, str(jobs), str(loops)])


def _held(databases: Databases, rounds: int) -> list[Check]:
    """Print what an old open transaction costs, beside Go; return the targets."""
    binary = build("worker")
    found: dict[tuple[str, int, bool], HeldRun] = {}
    for held in (False, True):
        with databases.fresh() as url, worked(url, _HELD_JOBS, held=held):
            for slots, jobs in _HELD_RUNS.items():
                found[_OURS, slots, held] = held_run(url, slots, *jobs)
            found["Go River", 100, held] = run_go(
                binary, url, 100, seconds=_HELD_GO_SECONDS, jobs=_HELD_RUNS[100][1]
            )
    print(f"after {_HELD_JOBS:,} jobs: without an old transaction, and with it")
    print(f"{'':28}{'jobs/s':>20}{'p99 ms':>20}{'index entries a job':>24}")
    checks = []
    for name, slots in [(_OURS, slots) for slots in _HELD_RUNS] + [("Go River", 100)]:
        free, kept = found[name, slots, False], found[name, slots, True]
        print(
            f"{f'{name}, {slots:,} slots':28}{free.per_second:>10,.0f}{kept.per_second:>10,.0f}"
            f"{free.p99:>10,.0f}{kept.p99:>10,.0f}{free.entries:>12,.1f}{kept.entries:>12,.1f}"
        )
        if name == _OURS:
            what = f"old transaction, {slots:,} slots"
            checks += [
                check(f"{what}: index entries a job", kept.entries, at_most=15),
                check(f"{what}: pace", kept.per_second / free.per_second, at_least=0.9),
                check(f"{what}: p99, without ÷ with", free.p99 / kept.p99, at_least=0.9),
            ]
    print()
    return checks


def held_run(url: str, slots: int, paced: int, burst: int) -> HeldRun:
    """Return a run of `held_runs.py` in its own process."""
    program = [sys.executable, "-m", "bench.engine.held_runs", str(slots), url]
    return HeldRun(**_ask([*program, str(paced), str(burst)]))


def _idle(databases: Databases, rounds: int) -> list[Check]:
    with databases.fresh() as ours, databases.fresh() as theirs:
        python, go = asyncio.run(measure_idle((ours, theirs), build("worker")))
    for name, client in ((_OURS, python), ("Go River", go)):
        print(
            f"idle {name}: {client.per_minute} statements and {client.pings} pings a minute,"
            f" {client.cpu:.0f} ms CPU a minute"
        )
        for statement, times in client.statements.most_common(12):
            print(f"  {times:4} {' '.join(statement.split())[:100]}")
    print()
    return [
        check(
            "idle: statements a minute against Go's", python.per_minute / go.per_minute, at_most=1
        ),
        check("idle: CPU, part of one core", python.cpu / 60_000 * 100, at_most=1, unit=" %"),
    ]


def _fleet(databases: Databases, rounds: int) -> list[Check]:
    with databases.fresh() as url:
        loads = asyncio.run(measure_fleet(url, seconds=_FLEET_SECONDS, rate=_FLEET_RATE))
    for load in loads:
        print(
            f"fleet: {load.clients} clients, {load.jobs:,} jobs/s: {load.connections} connections,"
            f" {load.statements:,.1f} statements/s, Postgres {load.server:,.0f} ms CPU/s, clients"
            f" {load.python:,.0f} ms CPU/s"
        )
    print()
    return [
        check(
            "fleet: statements a minute of a waiting client",
            loads[0].statements * 60 / loads[0].clients,
            at_most=100,
        )
    ]


def _turns(databases: Databases, runners: Mapping[str, Runner], rounds: int) -> None:
    for number in range(1, rounds + 1):
        for name, runner in runners.items():
            with databases.fresh(finished=runner.finished) as url:
                runner.runs.append(runner.run(url))
            print(f"round {number}, {name}: {runner.runs[-1].per_second:,.0f}/s", file=sys.stderr)


def _print_table(title: str, runners: Mapping[str, Runner]) -> None:
    first = next(iter(runners.values()))
    print(
        f"{title:46}{'jobs':>9}{'jobs/s':>10}{'from':>9}{'to':>9}{'ratio':>8}{'inserts/s':>11}{'CPU µs':>8}"  # noqa: E501
    )
    for name, runner in runners.items():
        rates = [drain.per_second for drain in runner.runs]
        inserted = runner.median(lambda drain: drain.inserted_per_second)
        cpu = runner.median(lambda drain: drain.cpu_per_job)
        print(
            f"{name:46}{runner.runs[0].jobs:>9,}{runner.per_second:>10,.0f}{min(rates):>9,.0f}{max(rates):>9,.0f}"
            f"{first.per_second / runner.per_second:>8.2f}"
            f"{f'{inserted:,.0f}' if inserted else '':>11}{f'{cpu:.1f}' if cpu else '':>8}"
        )
    print()


def _ratio(name: str, ours: Runner, other: Runner, at_least: float) -> Check:
    return check(name, ours.per_second / other.per_second, at_least=at_least, unit="×")


def _middle(figures: Sequence[Latency]) -> Latency:
    return Latency(
        p50=statistics.median(each.p50 for each in figures),
        p99=statistics.median(each.p99 for each in figures),
    )


def _peer(name: str, jobs: int) -> Runner:
    command = [sys.executable, "-W", "ignore", "-m", "bench.engine.peers", name]
    return Runner(run=lambda url: Drain(**_ask([*command, url, str(jobs)])), finished=None)


def our_run(command: str, url: str, *arguments: float) -> Drain:
    """Return a run of riverui's in its own process."""
    return Drain(**child(command, url, *arguments))


def child(command: str, url: str, *arguments: float | str) -> Any:
    """Return what one of the commands of `ours.py` gives, in its own process."""
    program = [sys.executable, "-m", "bench.engine.ours", command, url]
    return _ask([*program, *map(str, arguments)])


def _ask(command: Sequence[str]) -> Any:
    """Return what a program prints as the last line, JSON; what it says otherwise, where it
    fails.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
