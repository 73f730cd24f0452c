"""Reading jobs: pages, counts, single jobs, names, long texts."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from riverui.domain.jobs import JobState
from riverui.storage.interface import Driver
from riverui.storage.interface.params import (
    CountKind,
    Field,
    JobCursor,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from tests.contract.seeds import NOW, ended, insert, job, running

NAMED = Term(field=Field.KIND, op=Op.EQ, values=("mail",))


def params(order: JobOrder = JobOrder.ID, **given: object) -> JobPageParams:
    """Return a page of three."""
    chosen = JobFilter(states=given.pop("states", ()), terms=given.pop("terms", ()))  # type: ignore[arg-type]
    return JobPageParams(filter=chosen, order=order, limit=3, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", list(JobOrder))
async def test_pages_follow_one_another_and_lead_back(driver: Driver, order: JobOrder) -> None:
    ids = await insert(
        driver, *(job(scheduled_at=NOW + timedelta(minutes=n // 2)) for n in range(8))
    )
    if order.descending:
        ids = [*reversed(ids)]
    by_time = order in (JobOrder.TIME, JobOrder.TIME_DESC)
    found, cursor, pages = [], None, 0
    async with driver.reading() as executor:
        while True:
            page = await executor.jobs.list(
                params(order, states=(JobState.AVAILABLE,), cursor=cursor)
            )
            pages += 1
            found += [row.id for row in page.rows]
            last = page.rows[-1]
            cursor = JobCursor(at=last.matters_at if by_time else None, id=last.id)
            if not page.more:
                break
        back = await executor.jobs.list(
            params(
                order,
                states=(JobState.AVAILABLE,),
                cursor=JobCursor(at=cursor.at, id=cursor.id, before=True),
            )
        )
    assert (found, pages) == (ids, 3)
    assert [row.id for row in back.rows] == ids[4:7]


async def test_a_row_of_a_list(driver: Driver) -> None:
    (job_id,) = await ended(
        driver, JobState.DISCARDED, job(args='{"to": "ann"}', tags=("vip",), queue="q")
    )
    async with driver.reading() as executor:
        (row,) = (await executor.jobs.list(params())).rows
        (lean,) = (await executor.jobs.list(params(lean=True))).rows
        (minimal,) = (await executor.jobs.text_list(params())).rows
        written = await executor.jobs.json_list(params(), args=1000)
    assert (row.id, row.kind, row.queue, row.tags) == (job_id, "mail", "q", ("vip",))
    assert (row.state, row.matters_at, row.last_error) == ("discarded", NOW, "boom")
    assert "ann" in row.args_preview
    assert (lean.args_preview, lean.tags, lean.last_error) == ("", (), None)
    assert json.loads(minimal.args) == {"to": "ann"}
    # A driver may leave the writing to others.
    if written is not None:
        assert written.last is None
        assert json.loads(written.jobs)["args"] == minimal.args


async def test_every_field_can_be_searched(driver: Driver) -> None:
    ids = await insert(
        driver,
        job("mail_send", args='{"customer": {"id": 42}}', tags=("vip",), priority=2),
        job("report", metadata='{"trace": "abc"}', queue="tenant-1"),
        job("report", created_at=NOW - timedelta(days=2)),
    )
    ids += await ended(driver, JobState.DISCARDED, job("fails", queue="other"))
    day = timedelta(days=1)
    terms = {
        Term(field=Field.ID, op=Op.EQ, values=(ids[0], ids[1])): [0, 1],
        Term(field=Field.KIND, op=Op.EQ, values=("report",)): [1, 2],
        Term(field=Field.KIND, op=Op.LIKE, values=("MAIL*",)): [0],
        Term(field=Field.QUEUE, op=Op.LIKE, values=("tenant-*",)): [1],
        Term(field=Field.QUEUE, op=Op.EQ, values=("tenant-1",), negated=True): [0, 2, 3],
        Term(field=Field.PRIORITY, op=Op.EQ, values=(2,)): [0],
        Term(field=Field.TAG, op=Op.EQ, values=("vip",)): [0],
        Term(field=Field.WORKER, op=Op.EQ, values=("host_a_2026",)): [3],
        Term(field=Field.ARGS, op=Op.CONTAINS, values=('{"customer": {"id": 42}}',)): [0],
        Term(field=Field.METADATA, op=Op.CONTAINS, values=('{"trace": "abc"}',)): [1],
        Term(field=Field.ERROR, op=Op.LIKE, values=("BOOM",)): [3],
        Term(field=Field.ATTEMPT, op=Op.GE, values=(1,)): [3],
        Term(field=Field.CREATED, op=Op.LT, values=(NOW - day,)): [2],
        Term(field=Field.SCHEDULED, op=Op.GT, values=(NOW,)): [],
        Term(field=Field.STARTED, op=Op.LE, values=(NOW,)): [3],
        Term(field=Field.FINISHED, op=Op.GE, values=(NOW,)): [3],
        Term(field=Field.STATE, op=Op.EQ, values=("discarded",), negated=True): [0, 1, 2],
    }
    async with driver.reading() as executor:
        for term, places in terms.items():
            chosen = JobFilter(terms=(term,))
            page = await executor.jobs.list(JobPageParams(filter=chosen, order=JobOrder.ID))
            assert [ids.index(row.id) for row in page.rows] == places, term
            assert (await executor.jobs.count(chosen, cap=10)).value == len(places), term


async def test_counts_say_how_far_they_may_be_trusted(driver: Driver) -> None:
    await insert(driver, *[job()] * 5, job("other"))
    async with driver.reading() as executor:
        exact = await executor.jobs.count(JobFilter(terms=(NAMED,)), cap=10)
        capped = await executor.jobs.count(JobFilter(terms=(NAMED,)), cap=4)
        states = await executor.jobs.count_by_state(cap=100)
        few = await executor.jobs.count_by_state(cap=3)
        whole = await executor.jobs.count_exact(JobState.AVAILABLE)
        progress = await executor.jobs.progress(JobFilter(terms=(NAMED,)), window=1_000)
    assert (exact.value, exact.kind) == (5, CountKind.EXACT)
    assert (capped.value, capped.kind) == (4, CountKind.AT_LEAST)
    assert (whole.value, whole.kind) == (6, CountKind.EXACT)
    assert set(states) == set(JobState)
    assert (states[JobState.AVAILABLE].value, states[JobState.COMPLETED].value) == (6, 0)
    assert (few[JobState.AVAILABLE].value, few[JobState.AVAILABLE].kind) == (3, CountKind.AT_LEAST)
    assert progress.exact
    assert progress.counts[JobState.AVAILABLE] == 5


async def test_a_cutoff_freezes_what_is_seen(driver: Driver) -> None:
    before = await insert(driver, job())
    async with driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
    await insert(driver, job())
    async with driver.reading() as executor:
        page = await executor.jobs.list(params(cutoff=cutoff))
        count = await executor.jobs.count(JobFilter(), cap=10, cutoff=cutoff)
    assert ([row.id for row in page.rows], count.value) == (before, 1)


async def test_one_job_with_all_there_is_of_it(driver: Driver) -> None:
    log = [{"attempt": 1, "log": "one\n"}, {"attempt": 1, "log": "two\n"}]
    metadata = json.dumps({"output": {"rows": 3}, "river:log": log, "trace": "abc"})
    (job_id,) = await running(driver, job(args='{"text": "0123456789"}', metadata=metadata))
    async with driver.reading() as executor:
        row = await executor.jobs.get(job_id)
        cut = await executor.jobs.get(job_id, cut=10)
        lean = await executor.jobs.get(job_id, lean=True)
        text = await executor.jobs.text_get(job_id)
        written = await executor.jobs.json_get(job_id)
        args = await executor.jobs.text_piece(job_id, "args", size=1_000)
        some = await executor.jobs.text_piece(job_id, "args", start=2, size=4)
        output = await executor.jobs.text_piece(job_id, "output", size=1_000)
        logged = await executor.jobs.log_piece(job_id, 1, size=1_000)
        assert await executor.jobs.log_piece(job_id, 2, size=10) is None
        for read in (executor.jobs.get, executor.jobs.text_get, executor.jobs.json_get):
            assert await read(job_id + 1) is None
        assert await executor.jobs.text_piece(job_id + 1, "args", size=10) is None
    # A driver may leave the writing to others.
    if written is not None:
        assert text is not None
        assert json.loads(written)["metadata"] == json.loads(text.metadata)
    assert row is not None
    assert (row.id, row.attempted_by, row.cancel_attempted_at) == (job_id, ("host_a_2026",), None)
    assert row.output is not None
    assert json.loads(row.output.text) == {"rows": 3}
    assert json.loads(row.metadata.text) == {"trace": "abc"}
    assert [entry.log for entry in row.logs] == ["one\n", "two\n"]
    assert cut is not None
    assert not cut.args.complete
    assert len(cut.args.text) == 10
    assert lean is not None
    assert lean.kind == "mail"
    assert text is not None
    assert json.loads(text.metadata)["trace"] == "abc"
    assert args is not None
    assert json.loads(args.data) == {"text": "0123456789"}
    assert args.size == len(args.data)
    assert some is not None
    assert (some.data, some.version) == (args.data[2:6], args.version)
    assert output is not None
    assert json.loads(output.data) == {"rows": 3}
    assert logged is not None
    assert logged.data.startswith(b"one\n")
    assert logged.data.endswith(b"two\n")


async def test_kinds_by_name(driver: Driver) -> None:
    await insert(driver, job("Mail"), job("mail_2"), job("post"), job("post"))
    async with driver.reading() as executor:
        assert sorted(await executor.jobs.kind_list()) == ["Mail", "mail_2", "post"]
        assert sorted(await executor.jobs.kind_list(match="MAIL")) == ["Mail", "mail_2"]
        assert list(await executor.jobs.kind_list(after="mail_2")) == ["post"]
        assert sorted(await executor.jobs.kind_list(exclude=["post"])) == ["Mail", "mail_2"]
        assert len(await executor.jobs.kind_list(limit=2)) == 2
