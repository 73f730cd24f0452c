"""Whatever happens to jobs, in whatever order: Go River's code and ours leave the same rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from riverui.domain.jobs import JobState
from riverui.engine.insert.insert_opts import UniqueOpts
from riverui.storage.interface.engine_params import JobSelectParams
from tests.interop import upkeep
from tests.interop.script import Script
from tests.interop.twin import Ending, NewJob, Twin, twin
from tests.interop.worker import built
from tests.scale import FULL, scaled

pytestmark = [pytest.mark.interop, pytest.mark.scaled, pytest.mark.timeout(scaled(240, 7200))]

_QUEUES = ("default", "other")
_KINDS = ("alpha", "beta")
_ARGS = ("{}", '{"a":1}', '{"a":2,"b":"<ü&>"}', '{"b":{"z":1,"y":[null,1.5]},"a":"1"}')
_DUE = (None, None, None, -3600.0, 0.0, 2.0, 6.0, 90.0)
_METADATA = ("{}", "{}", '{"own":[1,{"a":null}]}', '{"snoozes":3}')
_UNFINISHED = (JobState.AVAILABLE, JobState.PENDING, JobState.RUNNING, JobState.SCHEDULED)

# A step takes the twin and does something to both sides. Each is a small dataclass, so that a
# failing sequence can be read.


@dataclass(frozen=True, slots=True)
class Insert:
    jobs: Sequence[NewJob]
    fast: bool

    async def __call__(self, twin: Twin) -> None:
        await twin.insert(self.jobs, fast=self.fast)


@dataclass(frozen=True, slots=True)
class Fetch:
    queue: str
    limit: int
    kinds: tuple[str, ...] | None

    async def __call__(self, twin: Twin) -> None:
        await twin.fetch(self.queue, self.limit, kinds=self.kinds)


@dataclass(frozen=True, slots=True)
class Execute:
    """Every running job, or the one of this number, ends by script."""

    pick: int
    script: Script

    async def __call__(self, twin: Twin) -> None:
        if running := await twin.running():
            await twin.execute(running[self.pick % len(running)], self.script)


@dataclass(frozen=True, slots=True)
class SetState:
    """Attempts end, of running jobs or of ones that are not running any more."""

    picks: tuple[int, ...]
    endings: tuple[Ending, ...]

    async def __call__(self, twin: Twin) -> None:
        chosen = {
            pick % len(twin.jobs): ending
            for pick, ending in zip(self.picks, self.endings, strict=False)
        }
        await twin.set_state(list(chosen.items()))


@dataclass(frozen=True, slots=True)
class Complete:
    picks: tuple[int, ...]

    async def __call__(self, twin: Twin) -> None:
        await twin.complete(sorted({pick % len(twin.jobs) for pick in self.picks}))


@dataclass(frozen=True, slots=True)
class Act:
    verb: str
    pick: int

    async def __call__(self, twin: Twin) -> None:
        await getattr(twin, self.verb)(self.pick % len(twin.jobs))


@dataclass(frozen=True, slots=True)
class Update:
    pick: int
    output: str

    async def __call__(self, twin: Twin) -> None:
        await twin.update(self.pick % len(twin.jobs), self.output)


@dataclass(frozen=True, slots=True)
class Schedule:
    limit: int
    look_ahead: float

    async def __call__(self, twin: Twin) -> None:
        await twin.schedule(self.limit, look_ahead=self.look_ahead)


@dataclass(frozen=True, slots=True)
class Rescue:
    after: float
    limit: int
    states: tuple[JobState, ...]

    async def __call__(self, twin: Twin) -> None:
        await twin.rescue(self.after, self.limit, self.states)


@dataclass(frozen=True, slots=True)
class Clean:
    keep: tuple[float | None, float | None, float | None]
    limit: int
    excluded: tuple[str, ...]

    async def __call__(self, twin: Twin) -> None:
        await twin.clean(self.keep, self.limit, self.excluded)


@dataclass(frozen=True, slots=True)
class Select:
    """River's JobDeleteMany and JobList."""

    verb: str
    params: JobSelectParams

    async def __call__(self, twin: Twin) -> None:
        ids = tuple(sorted({pick % len(twin.jobs) for pick in self.params.ids}))
        await getattr(twin, self.verb)(replace(self.params, ids=ids))


@dataclass(frozen=True, slots=True)
class Requested:
    async def __call__(self, twin: Twin) -> None:
        await twin.cancel_requested()


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float

    async def __call__(self, twin: Twin) -> None:
        twin.clock.now += timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class House:
    """Something that is done to queues or leaders."""

    do: Callable[..., Awaitable[None]]
    arguments: tuple[object, ...]
    another_term: bool | None = None

    async def __call__(self, twin: Twin) -> None:
        more = {} if self.another_term is None else {"another_term": self.another_term}
        await self.do(twin, *self.arguments, **more)


Step = (
    Insert
    | Fetch
    | Execute
    | SetState
    | Complete
    | Act
    | Update
    | Schedule
    | Rescue
    | Clean
    | Select
    | Requested
    | Wait
)

_picks = st.integers(0, 9)
_states = st.sampled_from(list(JobState))
_queues = st.sampled_from(_QUEUES)
_limits = st.sampled_from((1, 2, 100))
_due = st.sampled_from((-2.0, 0.0, 3.0, 5.0, 5.000001, 60.0))
_errors = st.builds(
    '{{"at":"2030-01-02T03:04:05.6789012Z","attempt":{},"error":{},"trace":""}}'.format,
    st.integers(0, 3),
    st.sampled_from(('"boom"', '"ü\\n\\u0001\\\\"')),
)
_patches = st.sampled_from((None, "{}", '{"own":null}', '{"snoozes":1,"output":{"a":[1]}}'))


@st.composite
def _unique(draw: st.DrawFn) -> UniqueOpts | None:
    by_args, by_queue = draw(st.booleans()), draw(st.booleans())
    by_period = draw(st.sampled_from((None, None, timedelta(hours=1), timedelta(days=7))))
    more = draw(
        st.sampled_from(
            (None, None, (), (JobState.RETRYABLE,), (JobState.COMPLETED, JobState.RETRYABLE))
        )
    )
    if not (by_args or by_queue or by_period or more is not None):
        return None
    return UniqueOpts(
        by_args=by_args,
        by_queue=by_queue,
        by_period=by_period,
        by_state=None if more is None else (*_UNFINISHED, *more),
        exclude_kind=bool(by_args or by_queue or by_period) and draw(st.booleans()),
    )


_jobs = st.builds(
    NewJob,
    kind=st.sampled_from(_KINDS),
    args=st.sampled_from(_ARGS),
    queue=_queues,
    priority=st.integers(1, 4),
    max_attempts=st.sampled_from((1, 2, 3, 25)),
    metadata=st.sampled_from(_METADATA),
    pending=st.sampled_from((False, False, False, True)),
    due_in=st.sampled_from(_DUE),
    tags=st.sampled_from(((), (), ("one-tag",), ("two", "one-tag"))),
    unique=st.one_of(st.none(), st.none(), _unique()),
)
_scripts = st.builds(
    Script,
    do=st.sampled_from(
        ("complete", "complete", "error", "error", "snooze", "cancel", "remote_cancel", "panic")
    ),
    message=st.sampled_from(("boom", "ü\n\x01\\")),
    metadata=st.sampled_from(({}, {}, {"own": None}, {"mine": {"a": [1, 2.5, "x"]}})),
    output=st.sampled_from((None, None, {"a": 1}, [1, "<&>"], "text")),
    retry_at=st.sampled_from((None, None, None, 0.0, 4.0, 70.0)),
    retry_in=st.sampled_from((1.0, 5.0, 5.000001, 600.0)),
    seconds=st.sampled_from((0.0, 1.5, 5.0, 5.000001, 3600.0)),
)


@st.composite
def _endings(draw: st.DrawFn) -> Ending:
    """Return possible calls of the completer; the attempt and the error need not fit."""
    state = draw(
        st.sampled_from(
            ("available", "cancelled", "completed", "discarded", "retryable", "scheduled")
        )
    )
    return Ending(
        state=JobState(state),
        attempt=draw(st.sampled_from((None, None, 0, 2))),
        error=draw(st.one_of(st.none(), _errors)),
        due_in=draw(_due) if state in ("available", "retryable", "scheduled") else None,
        finalized=state in ("cancelled", "completed", "discarded"),
        metadata=draw(_patches),
    )


_filters = st.builds(
    JobSelectParams,
    ids=st.lists(_picks, max_size=3).map(tuple),
    kinds=st.sampled_from(((), (), ("alpha",), ("beta", "nobody"))),
    priorities=st.sampled_from(((), (), (1, 2))),
    queues=st.sampled_from(((), (), ("other",))),
    states=st.lists(_states, max_size=3, unique=True).map(tuple),
    limit=_limits,
)
_deletions = _filters.filter(
    lambda it: bool(it.ids or it.kinds or it.priorities or it.queues or it.states)
)


@st.composite
def _lists(draw: st.DrawFn) -> JobSelectParams:
    params = replace(
        draw(_filters),
        tags_all=draw(st.sampled_from(((), (), ("one-tag",), ("one-tag", "two")))),
        tags_any=draw(st.sampled_from(((), (), ("one-tag", "two")))),
        metadata=draw(st.sampled_from((None, None, '{"own":[1]}', '{"snoozes":1}'))),
        descending=draw(st.booleans()),
        order=draw(st.sampled_from(("id", "scheduled_at", "finalized_at"))),
    )
    if params.order == "finalized_at":
        params = replace(params, states=(JobState.COMPLETED, JobState.CANCELLED))
    return params


_inserts = st.builds(
    Insert, st.lists(_jobs, min_size=1, max_size=4), st.sampled_from((False, False, True))
)
_fetches = st.builds(
    Fetch, _queues, _limits, st.sampled_from((None, None, ("alpha",), ("beta", "nobody"), ()))
)
_executions = st.builds(Execute, _picks, _scripts)
_many = st.lists(_picks, min_size=1, max_size=4).map(tuple)
_steps: st.SearchStrategy[Step] = st.one_of(
    _inserts,
    _fetches,
    _fetches,
    _executions,
    _executions,
    st.builds(SetState, _many, st.lists(_endings(), min_size=4, max_size=4).map(tuple)),
    st.builds(Complete, _many),
    st.builds(Act, st.sampled_from(("cancel", "cancel", "retry", "retry", "delete")), _picks),
    st.builds(Update, _picks, st.sampled_from(('{"a": 1}', '"text"', "[1, 2]"))),
    st.builds(Schedule, _limits, st.sampled_from((0.0, 5.0))),
    st.builds(
        Rescue,
        st.sampled_from((-1.0, 0.0, 60.0)),
        _limits,
        st.lists(
            st.sampled_from((JobState.RETRYABLE, JobState.DISCARDED, JobState.CANCELLED)),
            min_size=1,
            max_size=2,
        ).map(tuple),
    ),
    st.builds(
        Clean,
        st.tuples(*[st.sampled_from((None, -1.0, 0.0, 60.0))] * 3),
        _limits,
        st.sampled_from(((), (), ("other",))),
    ),
    st.builds(Select, st.just("delete_many"), _deletions),
    st.builds(Select, st.just("list_jobs"), _lists()),
    st.just(Requested()),
    st.builds(Wait, st.sampled_from((0.5, 5.0, 61.0, 100_000.0))),
)
_begins = st.sampled_from(
    (datetime(2019, 3, 31, 0, 59, 58, 123456, UTC), datetime(2041, 12, 31, 23, 59, tzinfo=UTC))
)


@pytest.fixture
async def both(database_url: str) -> AsyncIterator[Twin]:
    async with twin(built("worker"), database_url) as made:
        yield made


@settings(
    max_examples=scaled(60, 1500),
    derandomize=not FULL,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(begin=_begins, first=_inserts, steps=st.lists(_steps, min_size=8, max_size=30))
async def test_go_and_we_leave_the_same_rows(
    both: Twin, begin: datetime, first: Insert, steps: Sequence[Step]
) -> None:
    await both.begin(begin)
    for step in (first, *steps):
        if not both.jobs and not isinstance(step, Insert):
            continue
        await step(both)
        await both.check()


_names = st.sampled_from(_QUEUES)
_clients = st.sampled_from(("first", "second"))
_more = st.booleans()
_housekeeping = st.one_of(
    st.builds(House, st.just(upkeep.report), st.tuples(_names)),
    st.builds(House, st.just(upkeep.pause), st.tuples(st.sampled_from((*_QUEUES, "*", "nobodys")))),
    st.builds(
        House, st.just(upkeep.resume), st.tuples(st.sampled_from((*_QUEUES, "*", "nobodys")))
    ),
    st.builds(
        House, st.just(upkeep.update), st.tuples(_names, st.sampled_from(("{}", '{"a":[1,null]}')))
    ),
    st.builds(House, st.just(upkeep.clean), st.tuples(st.sampled_from((-1.0, 0.0, 60.0)), _limits)),
    st.builds(House, st.just(upkeep.elect), st.tuples(_clients)),
    st.builds(House, st.just(upkeep.reelect), st.tuples(_clients), _more),
    st.builds(House, st.just(upkeep.resign), st.tuples(_clients), _more),
    st.builds(Wait, st.sampled_from((0.000001, 1.0, 14.0, 15.0, 16.0, 61.0))),
)


@settings(
    max_examples=scaled(25, 900),
    derandomize=not FULL,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(begin=_begins, steps=st.lists(_housekeeping, min_size=5, max_size=30))
async def test_go_and_we_leave_the_same_queues_and_leaders(
    both: Twin, begin: datetime, steps: Sequence[House | Wait]
) -> None:
    await both.begin(begin)
    for step in steps:
        await step(both)
        await upkeep.check(both)
