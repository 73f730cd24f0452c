"""`python -m bench`: measures the dashboard on tables of growing size, and the engine beside
others.

It prints figures beside their targets.

Uses the Postgres server of DATABASE_URL (its user must be allowed to create databases), or one of
its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import platform
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench import report
from bench.api import ApiFigures, measure_api, table
from bench.bulk import BulkFigures, measure_bulk
from bench.cases import SEARCH, cases, facts
from bench.engine import measure as engine
from bench.figures import (
    BackFill,
    Load,
    back_fill,
    loads,
    measure_back_fill,
    measure_figures,
)
from bench.generate import SHAPES, SLIM_FROM, YOUNG, Shape, fill
from bench.live import LiveFigures, measure_live
from bench.measure import Result, Subject, measure
from bench.page_times import measure_first_requests, measure_page_times
from bench.pages import PageFigures, measure_pages
from bench.report import Check, check
from bench.viewers import report as viewers
from bench.viewers.measure import measure_viewers
from riverui.demo.postgres import EmbeddedPostgres
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver

DASHBOARD = ("queries", "bulk", "pages", "api", "viewers", "figures", "live")
PARTS = (*DASHBOARD, "engine", *engine.PARTS)
"""`engine` is all of its parts."""


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--rows", default="10k,1m", help="sizes of the table, e.g. 10k,1m,10m (%(default)s)"
    )
    parser.add_argument(
        "--shape", choices=SHAPES, default="young", help="of the rows (%(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=9, help="of each query (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each of the engine's runs (%(default)s)"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="only these parts")
    parser.add_argument(
        "--reuse", action="store_true", help="take filled databases up again, and keep them"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    arguments = parser.parse_args()
    sizes = [_rows(text) for text in arguments.rows.split(",")]
    parts = set(arguments.only or PARTS)
    if "engine" in parts:
        parts.update(engine.PARTS)
    targets: list[Check] = []
    if parts.intersection(DASHBOARD):
        targets += _dashboard(sizes, parts, arguments)
    if engine_parts := [part for part in engine.PARTS if part in parts]:
        with _server(durable=True) as server:
            print(_about(server), end="\n\n")
            targets += engine.measure_engine(server, engine_parts, rounds=arguments.rounds)
    print("\n".join(report.checks(targets)))
    return int(arguments.strict and not all(target.met for target in targets))


def _dashboard(
    sizes: list[int], parts: Collection[str], arguments: argparse.Namespace
) -> list[Check]:
    targets: list[Check] = []
    with _server() as server:
        print(_about(server), end="\n\n")
        if {"queries", "bulk", "pages", "api", "viewers", "figures"}.intersection(parts):
            shape = SHAPES[arguments.shape]
            with _databases(server, sizes, shape, reuse=arguments.reuse) as urls:
                targets += asyncio.run(_filled(urls, parts, arguments.repeats))
        if "figures" in parts:
            with _databases(server, [0], YOUNG, reuse=False) as urls:
                targets += _load_targets(asyncio.run(measure_figures(urls[0])))
        if "live" in parts:
            with _databases(server, [0], YOUNG, reuse=False) as urls:
                _print_live(asyncio.run(measure_live(urls[0])))
    return targets


async def _filled(urls: dict[int, str], parts: Collection[str], repeats: int) -> list[Check]:
    targets: list[Check] = []
    async with contextlib.AsyncExitStack() as stack:
        subjects = {}
        for rows, url in urls.items():
            with psycopg.connect(url) as connection:
                listed = cases(facts(connection))
            if rows > SLIM_FROM:
                # Sorting what has ended takes River UI's form minutes there.
                listed = [replace(case, river_ui=None) for case in listed]
            driver = connect(url)
            assert isinstance(driver, PostgresDriver)
            stack.push_async_callback(driver.close)
            plain = await psycopg.AsyncConnection.connect(url, autocommit=True)
            stack.push_async_callback(plain.close)
            subjects[rows] = Subject(driver=driver, plain=plain, cases=listed)
        biggest = subjects[max(subjects)]
        if "queries" in parts:
            results = await measure(subjects, repeats=repeats)
            print("\n".join(report.queries(results, biggest.cases)), end="\n\n")
            targets += _query_targets(results, biggest)
        if "bulk" in parts:
            targets += _bulk_targets(await measure_bulk(biggest.driver, biggest.plain))
    if "pages" in parts:
        targets += await _page_time_targets(urls[max(urls)])
        targets += _page_targets(await asyncio.to_thread(measure_pages, urls[max(urls)]))
    if "api" in parts:
        targets += _api_targets(await asyncio.to_thread(measure_api, urls))
    if "figures" in parts:
        targets += _back_fill_targets(await measure_back_fill(urls[max(urls)]))
    if "viewers" in parts:
        targets += await asyncio.to_thread(_viewer_targets, urls[max(urls)])
    return targets


def _load_targets(figures: list[Load]) -> list[Check]:
    print("\n".join(loads(figures)), end="\n\n")
    return [
        check(f"figures at {one.rate:,} ends/s, {where}", share * 100, at_most=most, unit=" %")
        for one, most in zip(figures, (1, 5), strict=True)
        for where, share in (("Postgres", one.postgres), ("dashboard", one.process))
    ]


def _back_fill_targets(figures: BackFill) -> list[Check]:
    print(back_fill(figures), end="\n\n")
    return [check("figures of the last hour", figures.postgres, at_most=2, unit=" s")]


def _query_targets(results: dict[str, dict[int, Result]], subject: Subject) -> list[Check]:
    biggest = max(results["list: all"])
    views = [case.key for case in subject.cases if case.target < SEARCH]
    searches = [case.key for case in subject.cases if case.target == SEARCH]
    slowest = max(views, key=lambda key: results[key][biggest].ours.median)
    longest = max(searches, key=lambda key: results[key][biggest].ours.median)
    found = [
        check(
            f"slowest view ({slowest})",
            results[slowest][biggest].ours.median,
            at_most=10,
            unit=" ms",
        ),
        check(
            f"worst search ({longest})",
            results[longest][biggest].ours.median,
            at_most=SEARCH,
            unit=" ms",
        ),
    ]
    sizes = sorted(results["list: all"])
    for rows in sizes:
        completed = results["list: completed"][rows]
        if rows >= 1_000_000 and completed.river_ui is not None:
            ratio = completed.ours.median / completed.river_ui.median
            name = f"completed list of {rows:,} rows"
            found.append(check(name, ratio, at_most=1.3, unit="× River UI's form"))
    for small, big in itertools.pairwise(sizes):
        for backlog in (False, True):
            judged = [
                case.key
                for case in subject.cases
                if case.target < SEARCH and case.backlog is backlog
            ]
            most = max(judged, key=lambda key: report.growth(results[key], small, big))
            what = "views that depend on the backlog" if backlog else "views"
            found.append(
                check(
                    f"{what}, most growth to {big:,} rows ({most})",
                    report.growth(results[most], small, big),
                    at_most=report.GROWTH,
                    unit="×",
                )
            )
    return found


def _bulk_targets(figures: list[BulkFigures]) -> list[Check]:
    found = []
    for one in figures:
        print(
            f"{one.verb.name} {one.jobs:,} jobs: {one.ours:,.0f} ms by filter"
            f" ({one.ours_with_pauses:,.0f} ms with pauses), {one.loop:,.0f} ms in a loop over ids,"
            f" longest statement {one.longest:.0f} ms"
        )
        found += [
            check(
                f"{one.verb.name} {one.jobs:,} jobs by filter against a loop",
                one.loop / one.ours,
                at_least=8,
                unit="×",
            ),
            check(
                f"{one.verb.name} {one.jobs:,} jobs: longest statement",
                one.longest,
                at_most=500,
                unit=" ms",
            ),
        ]
    print()
    return found


async def _page_time_targets(database_url: str) -> list[Check]:
    times = await measure_page_times(database_url)
    print("\n".join(report.page_times(times)), end="\n\n")
    firsts = await asyncio.to_thread(measure_first_requests, database_url)
    print("\n".join(report.first_requests(firsts)), end="\n\n")
    python = max(times, key=lambda page: page.python)
    database = max(times, key=lambda page: page.database)
    slowest = max(firsts, key=lambda page: page.first / page.next)
    return [
        check(f"Python's share of a page ({python.name})", python.python, at_most=10, unit=" ms"),
        check(
            f"the database's share of a page ({database.name})",
            database.database,
            at_most=10,
            unit=" ms",
        ),
        check(
            f"first request of a process ({slowest.name})",
            slowest.first / slowest.next,
            at_most=2,
            unit="×",
        ),
    ]


def _page_targets(page: PageFigures) -> list[Check]:
    print(
        f"100-row page: {page.bytes:,} bytes, {page.per_second:.0f}/s,"
        f" p50 {page.p50:.2f} ms, p99 {page.p99:.2f} ms"
    )
    print(
        f"bare page:    {page.bare_bytes:,} bytes, {page.bare_per_second:.0f}/s,"
        f" p50 {page.bare_p50:.2f} ms, p99 {page.bare_p99:.2f} ms\n"
    )
    return [
        check(
            "100-row page against a bare page, per second",
            page.ratio,
            at_least=0.85,
        ),
        check("100-row page, one client: p99/p50", page.p99 / page.p50, at_most=4),
        check("scripts and styles, gzipped", page.assets / 1000, at_most=60, unit=" kB"),
    ]


def _api_targets(figures: dict[int, ApiFigures]) -> list[Check]:
    print("\n".join(table(figures)))
    if not any(pair.river_ui for api in figures.values() for pair in api.pairs):
        print("River UI is written in Go, which is not there: its columns are empty.")
    found = []
    for rows, api in figures.items():
        if api.exported:
            print(f"API export: {api.exported:,} jobs in {api.export_seconds:.1f} s")
        for pair in api.pairs:
            name = f"API {pair.address.name}, {rows:,} rows"
            answered = check(f"{name}: status", pair.ours.status, at_most=200)
            if not answered.met or pair.ratio is None:
                found.append(answered)
            else:
                bound, unit = pair.address.at_most, "× River UI"
                found.append(check(name, pair.ratio, at_most=bound, unit=unit))
    print()
    return found


def _viewer_targets(database_url: str) -> list[Check]:
    crowds = []
    print(viewers.HEAD)
    for crowd in measure_viewers(database_url):
        print(viewers.line(crowd), flush=True)
        crowds.append(crowd)
    print()
    if not crowds:
        return []
    few, *_, many, most, after = crowds
    name = f"{many.viewers:,} viewers"
    return [
        check(f"{name}: p95", many.p95, at_most=300, unit=" ms"),
        check(f"{name}: lost answers, and those of 5xx", many.failed + many.refused, at_most=0),
        check(f"{name}: share of a core", many.core * 100, at_most=60, unit=" %"),
        check(
            f"{name}: transactions against one viewer for each address",
            many.transactions / few.transactions,
            at_most=1.2,
            unit="×",
        ),
        check(f"{most.viewers:,} viewers: lost answers", most.failed, at_most=0),
        check(f"right after {most.viewers:,} viewers: p95", after.p95, at_most=300, unit=" ms"),
    ]


def _print_live(live: LiveFigures) -> None:
    print(
        f"Go River: {live.alone:,.0f} jobs/s alone, {live.watched:,.0f} jobs/s while {live.pages}"
        f" pages were served ({live.watched / live.alone:.2f}×), p50 {live.p50:.1f} ms, p99"
        f" {live.p99:.1f} ms\n"
    )


def _about(server: str) -> str:
    with psycopg.connect(server) as connection:
        row = connection.execute(
            "select current_setting('server_version'), current_setting('shared_buffers'),"
            " current_setting('random_page_cost')"
        ).fetchone()
    assert row is not None
    return (
        f"PostgreSQL {row[0]}, shared_buffers {row[1]}, random_page_cost {row[2]};"
        f" Python {platform.python_version()}; {os.cpu_count()} CPUs for both and the clients"
    )


@contextlib.contextmanager
def _server(*, durable: bool = False) -> Iterator[str]:
    if given := os.environ.get("DATABASE_URL"):
        yield given
        return
    with EmbeddedPostgres(None, durable=durable) as postgres:
        yield postgres.url


@contextlib.contextmanager
def _databases(
    server: str, sizes: list[int], shape: Shape, *, reuse: bool
) -> Iterator[dict[int, str]]:
    """Yield a migrated and filled database for each size; dropped afterwards unless they are to be
    reused.
    """
    suffix = "" if shape is YOUNG else "_deep"
    names = {rows: f"riverui_bench_{rows}{suffix}" for rows in sizes}
    with psycopg.connect(server, autocommit=True) as connection:
        there = {row[0] for row in connection.execute("select datname from pg_database")}
        try:
            urls = {}
            for rows, name in names.items():
                urls[rows] = make_conninfo(server, dbname=name)
                if name in there and reuse:
                    continue
                connection.execute(
                    sql.SQL("drop database if exists {}").format(sql.Identifier(name))
                )
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
                asyncio.run(_migrate(urls[rows]))
                start = time.monotonic()
                if rows:
                    with psycopg.connect(urls[rows], autocommit=True) as filling:
                        fill(filling, rows, shape)
                    print(f"{rows:,} rows in {time.monotonic() - start:.0f} s", file=sys.stderr)
            yield urls
        finally:
            if not reuse:
                for name in names.values():
                    connection.execute(
                        sql.SQL("drop database if exists {} with (force)").format(
                            sql.Identifier(name)
                        )
                    )


async def _migrate(url: str) -> None:
    driver = connect(url)
    await migrate(driver, "up")
    await driver.close()


def _rows(text: str) -> int:
    number, unit = text[:-1], {"k": 1_000, "m": 1_000_000}[text[-1].lower()]
    return int(number) * unit


if __name__ == "__main__":
    sys.exit(main())
