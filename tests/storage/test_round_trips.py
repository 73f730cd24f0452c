"""Statements that only read, each its own transaction in one round trip."""

from __future__ import annotations

from riverui.domain.jobs import JobState
from riverui.storage.interface.params import Field, JobFilter, JobPageParams, Op, Term
from tests.drivers import connect
from tests.factory import Make


async def test_what_was_prepared_may_no_longer_hold(database_url: str, make: Make) -> None:
    """Tables change under a running dashboard, and sessions may drop their statements."""
    job_id = await make.job(kind="mail")
    driver = connect(database_url, max_size=1)

    async def kind() -> str | None:
        async with driver.reading() as executor:
            job = await executor.jobs.text_get(job_id)
        return job and job.kind

    assert await kind() == "mail"
    await make.connection.execute(
        "alter table river_job drop constraint kind_length, alter column kind type varchar(200)"
    )
    for _ in range(2):
        assert await kind() == "mail"
    async with driver.autocommit() as executor:
        await executor.ask("deallocate", "deallocate all", ())
    for _ in range(2):
        assert await kind() == "mail"
        await driver.ping()
    await driver.close()


async def test_repeated_lists_are_planned_for_values(database_url: str, make: Make) -> None:
    """Kinds are anybody's words, and become part of the statement."""
    kinds = ["mail", "it's \\ $1 \"{odd},}", "größer", "E'\\x'"]
    ids = {kind: await make.job(kind=kind, state="completed") for kind in kinds}
    driver = connect(database_url, max_size=1)

    async def listed(*kinds: str) -> set[int]:
        term = Term(field=Field.KIND, op=Op.EQ, values=kinds)
        wanted = JobFilter(states=(JobState.COMPLETED,), terms=(term,))
        async with driver.reading() as executor:
            page = await executor.jobs.list(JobPageParams(filter=wanted))
        return {row.id for row in page.rows}

    async def plans() -> int:
        async with driver.reading() as executor:
            prepared = await executor.ask(
                "plans",
                "select count(*) from pg_prepared_statements where statement like '%river_job%'"
                " and parameter_types = '{}'",
                (),
            )
        return int(prepared.value())

    for seen in (0, 1, 1):
        for kind, job_id in ids.items():
            assert await listed(kind) == {job_id}
        assert await plans() == seen * len(kinds)
    assert await listed("mail", kinds[1]) == {ids["mail"], ids[kinds[1]]}

    many = [f"kind_{number}" for number in range(20)]
    for _ in range(2):
        for kind in many:
            for _ in range(2):
                assert await listed(kind) == set()
    assert 0 < await plans() <= 16, "the oldest are given up"

    another = await make.job(kind="mail", state="completed")
    await make.connection.execute("analyze river_job")
    for _ in range(3):
        assert await listed("mail") == {ids["mail"], another}
    await make.connection.execute("alter table river_job alter column tags type text[]")
    await make.connection.execute("alter table river_job add column more int")
    for _ in range(3):
        assert await listed("mail") == {ids["mail"], another}
    async with driver.autocommit() as executor:
        await executor.ask("deallocate", "deallocate all", ())
    for _ in range(3):
        assert await listed("mail") == {ids["mail"], another}
    await driver.close()
