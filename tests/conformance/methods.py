"""The methods of River's adapter contract: each takes the process, its parameters, and its
transaction if it has one.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta, timezone
from typing import Annotated, Any, TypeVar

import msgspec
import psycopg

import riverui
from riverui import (
    Client,
    CronSchedule,
    JobDeleteManyParams,
    JobListParams,
    JobState,
    QueueConfig,
    Unique,
    UniqueOpts,
    migrate,
)
from riverui.domain.retries import retry_delay
from riverui.domain.schedules import NEVER
from riverui.domain.time import rfc3339_nano
from riverui.engine.args.unique import unique_args, unique_key, uniqueness
from riverui.errors import QueueAlreadyAdded
from riverui.storage.connect import migrations
from riverui.storage.migrations import migration_status
from tests.conformance.echo import Echo
from tests.conformance.params import (
    After,
    Application,
    Benchmark,
    CronNext,
    DeleteMany,
    ExactJson,
    Finalize,
    Get,
    Insert,
    InsertInTransaction,
    InsertMany,
    Listing,
    Migrate,
    Named,
    Nothing,
    Now,
    One,
    Params,
    QueueAdd,
    QueueList,
    QueueUpdate,
    RawInsert,
    Reset,
    RetryDelay,
    Seed,
    Start,
    Stop,
    UniqueKey,
    Update,
    Wait,
    Work,
)
from tests.conformance.process import Adapter, Code, Refused, Transaction, end
from tests.conformance.shapes import insert_result, job_of, new_job, queue_of, time_of

ADAPTER_VERSION = 18  # as in contract.json
PROTOCOL_REVISION = 1  # likewise
FULL, INSERT_ONLY = "postgres-full-v1", "insert-only-v1"
CAPABILITIES = {
    FULL: (
        "barriers cancel custom_schema deterministic_controls extensions fault_injection get insert"
        " job_crud leadership lifecycle maintenance migrate notifications periodic_jobs poll_only"
        " queues reset resumable_jobs retry scheduler subscriptions transactions unique_jobs work"
    ),
    INSERT_ONLY: "insert lifecycle transactions unique_jobs",
}
INSERT_ONLY_METHODS = (
    "handshake insert insert_many tx_begin tx_commit tx_insert tx_insert_many tx_rollback"
    " unique_key"
)
_WAIT_SECONDS = 10.0
"""For which `wait` and `work` wait: as long as in River's own adapter."""
_ENDED = (JobState.CANCELLED, JobState.COMPLETED, JobState.DISCARDED)

P = TypeVar("P", bound=Params)
Method = Callable[[Adapter, Any, Any], Awaitable[Any]]
METHODS: dict[str, tuple[type[Params], Method, bool]] = {}
"""Parameters and function by name, and whether `tx_<name>` exists too."""


def method(
    params: type[P], *, tx: bool = False
) -> Callable[[Callable[[Adapter, P, Any], Awaitable[Any]]], None]:
    """Add a method under the function's name."""

    def add(function: Any) -> None:
        METHODS[function.__name__] = (params, function, tx)

    return add


@method(Named)
async def barrier_create(adapter: Adapter, params: Named, _: Any) -> None:
    adapter.create_barrier(params.name)


@method(Named)
async def barrier_release(adapter: Adapter, params: Named, _: Any) -> None:
    adapter.release_barrier(params.name)


@method(Benchmark)
async def benchmark_enqueue(adapter: Adapter, params: Benchmark, _: Any) -> dict[str, int]:
    client, took = adapter.client(), []
    began = time.perf_counter_ns()
    for number in range(params.jobs):
        at = time.perf_counter_ns()
        await client.insert(Echo(message=f"benchmark-enqueue-{number}"))
        took.append(time.perf_counter_ns() - at)
    whole = time.perf_counter_ns() - began
    p95 = statistics.quantiles(took, n=20)[-1] if len(took) > 1 else took[0]
    return {"duration_ns": whole, "p95_ns": int(p95)}


@method(One, tx=True)
async def cancel(adapter: Adapter, params: One, tx: Any) -> Any:
    return job_of(await adapter.call("job_cancel", tx)(params.id))


@method(Now)
async def clock_set(adapter: Adapter, params: Now, _: Any) -> None:
    adapter.now = params.now


@method(Nothing)
async def connection_count(adapter: Adapter, _: Nothing, __: Any) -> Any:
    return await adapter.row(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name = %(name)s",
        name=adapter.application_name,
    )


@method(CronNext)
async def cron_next(adapter: Adapter, params: CronNext, _: Any) -> dict[str, list[str]]:
    zone = timezone(params.from_.utcoffset() or timedelta(0))
    schedule, at = CronSchedule(params.expression, zone), params.from_
    found: list[str] = []
    while len(found) < params.count and (at := schedule.next(at)) != NEVER:
        found.append(rfc3339_nano(at.astimezone(zone)))
    return {"next": found}


@method(One, tx=True)
async def delete(adapter: Adapter, params: One, tx: Any) -> Any:
    return job_of(await adapter.call("job_delete", tx)(params.id))


@method(DeleteMany, tx=True)
async def delete_many(adapter: Adapter, params: DeleteMany, tx: Any) -> Any:
    wanted = JobDeleteManyParams(
        first=params.limit,
        ids=params.ids,
        kinds=params.kinds,
        queues=params.queues,
        states=params.states,
        unsafe_all=params.all,
    )
    return {"jobs": [job_of(row) for row in await adapter.call("job_delete_many", tx)(wanted)]}


_DISCONNECT = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity"
    " where datname = current_database() and application_name = %(name)s"
    " and pid <> pg_backend_pid()"
)
_LISTENS = " and query ilike 'listen %%'"


@method(Application)
async def fault_disconnect_application(adapter: Adapter, params: Application, _: Any) -> Any:
    return await adapter.row(_DISCONNECT, name=params.application_name)


@method(Nothing)
async def fault_disconnect_listeners(adapter: Adapter, _: Nothing, __: Any) -> Any:
    return await adapter.row(_DISCONNECT + _LISTENS, name=adapter.application_name)


@method(Nothing)
async def fault_expire_leader(adapter: Adapter, _: Nothing, __: Any) -> None:
    await adapter.rows("update river_leader set expires_at = now() - interval '1 second'")


@method(Get, tx=True)
async def get(adapter: Adapter, params: Get, tx: Any) -> Any:
    return job_of(await adapter.call("job_get", tx, params.schema)(params.id))


@method(Nothing)
async def handshake(adapter: Adapter, _: Nothing, __: Any) -> dict[str, Any]:
    return {
        "adapter_version": ADAPTER_VERSION,
        "application_name": adapter.application_name,
        "backend": "sqlite" if adapter.is_file else "postgres",
        "capabilities": CAPABILITIES[adapter.profile].split(),
        "implementation": "python",
        "implementation_version": riverui.__version__,
        "methods": methods_of(adapter.profile),
        "migration_lines": {"main": max(migrations().versions("main"))},
        "profile": adapter.profile,
        "protocol_revision": PROTOCOL_REVISION,
    }


@method(Insert)
async def insert(adapter: Adapter, params: Insert, _: Any) -> Any:
    (result,) = await adapter.client(params.schema).insert_many([new_job(params)])
    return job_of(result.job)


@method(InsertInTransaction)
async def tx_insert(adapter: Adapter, params: InsertInTransaction, tx: Any) -> Any:
    (result,) = await adapter.call("insert_many", tx)([new_job(params.job)])
    return job_of(result.job)


@method(InsertMany, tx=True)
async def insert_many(adapter: Adapter, params: InsertMany, tx: Any) -> Any:
    if not params.jobs:
        # River rejects an empty batch; riverui inserts nothing.
        raise Refused(Code.REJECTED, "there are no jobs to insert")
    results = await adapter.call("insert_many", tx)([new_job(job) for job in params.jobs])
    return {"results": [insert_result(result) for result in results]}


@method(Nothing)
async def leader(adapter: Adapter, _: Nothing, __: Any) -> Any:
    found = await adapter.rows(
        "select elected_at, leader_id from river_leader where expires_at >= now()"
    )
    if not found:
        return {"elected_at": None, "leader_id": None}
    return {**found[0], "elected_at": time_of(found[0]["elected_at"])}


@method(Listing, tx=True)
async def list_(adapter: Adapter, params: Listing, tx: Any) -> Any:
    wanted = JobListParams(
        after=params.after,
        descending=params.direction == "desc",
        first=params.limit,
        ids=params.ids,
        kinds=params.kinds,
        metadata=params.metadata,
        order_by=params.order_by,
        priorities=params.priorities,
        queues=params.queues,
        states=params.states,
        tags_all=params.tags_all,
        tags_any=params.tags_any,
    )
    page = await adapter.call("job_list", tx)(wanted)
    cursor = None if page.last_cursor is None else str(page.last_cursor)
    return {"cursor": cursor, "jobs": [job_of(row) for row in page.jobs]}


@method(Nothing)
async def listener_count(adapter: Adapter, _: Nothing, __: Any) -> Any:
    return await adapter.row(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name = %(name)s" + _LISTENS,
        name=adapter.application_name,
    )


@method(Migrate)
async def migrate_(adapter: Adapter, params: Migrate, _: Any) -> Any:
    driver: Any = adapter.driver(params.schema)
    if params.schema:
        await adapter.rows(f'create schema if not exists "{driver.schema}"')
    steps = await migrate(
        driver,
        params.direction,
        dry_run=params.dry_run,
        max_steps=params.max_steps,
        target_version=params.target_version,
    )
    status = await migration_status(driver)
    return {
        "applied": [step.version for step in steps],
        "existing": [version for version, _, applied in status if applied],
        "valid": all(applied for _, _, applied in status),
    }


@method(QueueAdd)
async def queue_add(adapter: Adapter, params: QueueAdd, _: Any) -> None:
    queues = _working(adapter).queues
    try:
        await queues.add(params.name, QueueConfig(max_workers=params.max_workers))
    except QueueAlreadyAdded:
        await queues.scale(params.name, params.max_workers)


@method(Named, tx=True)
async def queue_get(adapter: Adapter, params: Named, tx: Any) -> Any:
    return queue_of(await adapter.call("queue_get", tx)(params.name))


@method(QueueList, tx=True)
async def queue_list(adapter: Adapter, params: QueueList, tx: Any) -> Any:
    return {"queues": [*map(queue_of, await adapter.call("queue_list", tx)(first=params.limit))]}


@method(Named, tx=True)
async def queue_pause(adapter: Adapter, params: Named, tx: Any) -> None:
    await adapter.call("queue_pause", tx)(params.name)


@method(Named)
async def queue_remove(adapter: Adapter, params: Named, _: Any) -> None:
    await _working(adapter).queues.remove(params.name)


@method(Named, tx=True)
async def queue_resume(adapter: Adapter, params: Named, tx: Any) -> None:
    await adapter.call("queue_resume", tx)(params.name)


@method(QueueUpdate, tx=True)
async def queue_update(adapter: Adapter, params: QueueUpdate, tx: Any) -> Any:
    call = adapter.call("queue_update", tx)
    return queue_of(await call(params.name, metadata=params.metadata))


@method(Finalize)
async def raw_finalize(adapter: Adapter, params: Finalize, _: Any) -> Any:
    error = {
        "at": "2026-02-03T04:05:06.789Z",
        "attempt": 1,
        "error": "external discard",
        "trace": "external trace",
    }
    await adapter.row(
        "update river_job set state = %(state)s::river_job_state, finalized_at = now(),"
        " metadata = metadata || %(metadata)s::jsonb, errors = case when %(state)s = 'discarded'"
        " then array_append(errors, %(error)s::jsonb) else errors end"
        " where id = %(id)s and state = 'running' returning id",
        id=params.id,
        state=params.state,
        metadata=json.dumps(params.metadata),
        error=json.dumps(error),
    )
    return job_of(await adapter.client().job_get(params.id))


@method(ExactJson)
async def raw_insert_exact_json(adapter: Adapter, params: ExactJson, _: Any) -> Any:
    return await adapter.row(
        "insert into river_job (id, args, kind, max_attempts, metadata) values"
        " (coalesce(%(id)s, nextval(pg_get_serial_sequence('river_job', 'id'))),"
        ' \'{"decimal":0.12345678901234567890123456789,"integer":9223372036854775807}\','
        " 'conformance_exact_json', 25,"
        " coalesce(%(metadata)s, '{\"negative\":-9223372036854775808}')::jsonb) returning id",
        id=params.id,
        metadata=params.metadata_json,
    )


@method(Nothing)
async def raw_insert_full_row(adapter: Adapter, _: Nothing, __: Any) -> Any:
    error = {
        "at": "2026-01-02T03:04:06.123456Z",
        "attempt": 3,
        "error": 'worker failed: escaped "detail"',
        "trace": "frame one\nframe two",
    }
    inserted = await adapter.row(
        "insert into river_job (args, attempt, attempted_at, attempted_by, created_at, errors,"
        " finalized_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags,"
        " unique_key, unique_states) values"
        ' (\'{"nested":{"enabled":true},"values":[1,"two",null]}\', 3,'
        " '2026-01-02T03:04:06.123456Z', array['go-client', 'candidate-client'],"
        " '2026-01-02T03:04:05.6789Z', array[%(error)s::jsonb], '2026-01-02T03:04:07.000001Z',"
        " 'conformance_full_row', 4,"
        ' \'{"output":{"ok":true},"river:rescue_count":2,"user":"metadata"}\', 2,'
        " 'priority_jobs', '2026-01-02T03:04:05.999999Z', 'discarded',"
        " array['alpha_tag', 'beta_tag'], decode(repeat('ab', 32), 'hex'), B'11110101')"
        " returning id",
        error=json.dumps(error),
    )
    return job_of(await adapter.client().job_get(inserted["id"]))


@method(RawInsert)
async def raw_insert_no_notify(adapter: Adapter, params: RawInsert, _: Any) -> Any:
    args = {
        "behavior": params.behavior,
        "duration_ms": params.duration_ms,
        "message": params.message,
    }
    inserted = await adapter.row(
        "insert into river_job (args, kind, max_attempts)"
        " values (%(args)s::jsonb, %(kind)s, %(most)s) returning id",
        args=json.dumps(args),
        kind=params.kind,
        most=(params.opts and params.opts.max_attempts) or 25,
    )
    return job_of(await adapter.client().job_get(inserted["id"]))


@method(One)
async def raw_job_exact_json(adapter: Adapter, params: One, _: Any) -> Any:
    row = await adapter.client().job_get(params.id)
    members = msgspec.json.Decoder(dict[str, msgspec.Raw])
    found = {**members.decode(row.args), **members.decode(row.metadata)}
    wanted = ("big_integer", "beyond_float", "decimal", "integer", "long_decimal", "negative")
    return {key: bytes(found[key]).decode() for key in wanted if key in found}


@method(One)
async def raw_job_row(adapter: Adapter, params: One, _: Any) -> Any:
    row = await adapter.row(
        "select args::text, attempted_at::text, attempted_by::text, created_at::text,"
        " errors::text, finalized_at::text, metadata::text, scheduled_at::text, tags::text,"
        " upper(encode(unique_key, 'hex')) as unique_key, unique_states::text"
        " from river_job where id = %(id)s",
        id=params.id,
    )
    return {**row, "jsonb": None, "unique_key_type": None, "unique_states_type": None}


@method(One)
async def raw_job_timestamps(adapter: Adapter, params: One, _: Any) -> Any:
    return await adapter.row(
        "select created_at::text, scheduled_at::text from river_job where id = %(id)s",
        id=params.id,
    )


@method(After)
async def raw_notifications(adapter: Adapter, params: After, _: Any) -> None:
    raise Refused(Code.UNSUPPORTED, "Postgres has no table of notifications")


@method(Nothing)
async def request_resign(adapter: Adapter, _: Nothing, tx: Any) -> None:
    await adapter.call("request_resign", tx)()


@method(Reset)
async def reset(adapter: Adapter, params: Reset, _: Any) -> None:
    if adapter.running is not None or adapter.transactions:
        raise Refused(Code.REJECTED, "a client is running, or a transaction is open")
    adapter.clear_barriers()
    if adapter.is_file:
        # Its tables are emptied by whoever has the file.
        return
    prefix = f'"{adapter.driver(params.schema).schema}".' if params.schema else ""
    tables = ("river_job", "river_notification", "river_queue", "river_leader")
    await adapter.rows(
        f"truncate {', '.join(prefix + table for table in tables)} restart identity cascade"
    )


@method(One, tx=True)
async def retry(adapter: Adapter, params: One, tx: Any) -> Any:
    return job_of(await adapter.call("job_retry", tx)(params.id))


@method(RetryDelay)
async def retry_delay_(adapter: Adapter, params: RetryDelay, _: Any) -> dict[str, int]:
    if adapter.now is None:
        raise Refused(Code.REJECTED, "clock_set comes first")
    microseconds = retry_delay(params.error_count) // timedelta(microseconds=1)
    return {"delay_ns": min(microseconds * 1000, 2**63 - 1)}


@method(Seed)
async def rng_seed(adapter: Adapter, params: Seed, _: Any) -> None:
    """Do nothing: the jitter of River's policy has no seed."""


@method(Nothing)
async def runtime_stats(adapter: Adapter, _: Nothing, __: Any) -> dict[str, Any]:
    _working(adapter)
    return adapter.stats.snapshot()


@method(Start)
async def start(adapter: Adapter, params: Start, _: Any) -> None:
    await adapter.start(params)


@method(Stop)
async def stop(adapter: Adapter, params: Stop, _: Any) -> None:
    await adapter.stop(cancel=params.cancel)


@method(Nothing)
async def tx_begin(adapter: Adapter, _: Nothing, tx: str) -> None:
    await adapter.begin(tx)


@method(Nothing)
async def tx_commit(adapter: Adapter, _: Nothing, tx: Transaction) -> None:
    await end(tx, commit=True)


@method(Nothing)
async def tx_fail(adapter: Adapter, _: Nothing, tx: psycopg.AsyncConnection[Any]) -> None:
    await tx.execute("select 1 / 0")


@method(Nothing)
async def tx_rollback(adapter: Adapter, _: Nothing, tx: Transaction) -> None:
    await end(tx, commit=False)


@method(UniqueKey)
async def unique_key_(adapter: Adapter, params: UniqueKey, _: Any) -> dict[str, Any]:
    options, encoded = params.options, bytes(params.args).decode()
    unique = uniqueness(
        UniqueOpts(
            by_args=options.by_args,
            by_period=timedelta(microseconds=options.by_period_nanos / 1000) or None,
            by_queue=options.by_queue,
            by_state=options.by_state,
            exclude_kind=options.exclude_kind,
        )
    )
    if unique is None:
        raise Refused(Code.REJECTED, "the options make no job unique")
    if not encoded.startswith("{"):
        raise Refused(Code.REJECTED, "args are not an object")
    args = unique_args(encoded, ARGS_TYPES.get(params.kind, object)) if unique.by_args else ""
    at = params.scheduled_at or params.now
    key = unique_key(params.kind, unique, args, params.queue, at)
    return {"sha256": key.hex(), "state_mask": unique.states}


@method(Update, tx=True)
async def update(adapter: Adapter, params: Update, tx: Any) -> Any:
    return job_of(await adapter.call("job_update", tx)(params.id, output=params.output))


@method(Wait)
async def wait(adapter: Adapter, params: Wait, _: Any) -> Any:
    return await _wait(adapter.client(), params.id, params.states or _ENDED)


@method(Work)
async def work(adapter: Adapter, params: Work, _: Any) -> Any:
    await adapter.start(Start(client_id=params.client_id, max_workers=1, schema=params.schema))
    try:
        return await _wait(adapter.client(params.schema), params.id, _ENDED)
    finally:
        await adapter.stop(cancel=False)


def _working(adapter: Adapter) -> Client:
    if adapter.running is None:
        raise Refused(Code.REJECTED, "no client is running")
    return adapter.running


async def _wait(client: Client, id: int, states: Sequence[JobState]) -> dict[str, Any]:
    until = time.monotonic() + _WAIT_SECONDS
    while (row := await client.job_get(id)).state not in states:
        if time.monotonic() > until:
            raise Refused(Code.REJECTED, f"job {id} is {row.state}, not {' or '.join(states)}")
        await asyncio.sleep(0.01)
    return job_of(row)


def _selected(kind: str, fields: Mapping[str, Any]) -> type:
    """Return a type of args of which these JSON names are marked as unique."""
    members = [(f"f{number}", marked, None) for number, marked in enumerate(fields.values())]
    names = {f"f{number}": name for number, name in enumerate(fields)}
    return msgspec.defstruct(kind, members, rename=names, namespace={"kind": kind})


_Marked = Annotated[str | None, Unique]
ARGS_TYPES: Mapping[str, type] = {
    "conformance_dotted_selected_args": _selected(
        "conformance_dotted_selected_args",
        {
            **dict.fromkeys(
                ("@user", "!x", "{x}", "[x]", ":id", "user.id", "a*b?c#d|e", "é"), _Marked
            ),
            "user": _selected("user", {"id": _Marked}),
        },
    ),
    "conformance_selected_args": _selected(
        "conformance_selected_args",
        {
            "account": _selected("account", {"id": _Marked, "ignored": str, "region": _Marked}),
            "ignored": bool,
            "label": _Marked,
            "path/key": _Marked,
        },
    ),
}
"""The kinds of the fixtures of which only some args count."""


def _all_methods() -> dict[str, tuple[type[Params], Method]]:
    found: dict[str, tuple[type[Params], Method]] = {}
    for name, (params, function, tx) in METHODS.items():
        found[name.rstrip("_")] = (params, function)
        if tx:
            found[f"tx_{name.rstrip('_')}"] = (params, function)
    return dict(sorted(found.items()))


ALL_METHODS = _all_methods()


def methods_of(profile: str) -> Sequence[str]:
    """Return the names of a profile's methods, in order."""
    if profile == INSERT_ONLY:
        return INSERT_ONLY_METHODS.split()
    return [*ALL_METHODS]
