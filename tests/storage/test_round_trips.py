"""Statements that only read, each a transaction of its own in one round trip."""

from __future__ import annotations

from tests.drivers import connect
from tests.storage.conftest import Make


async def test_what_was_prepared_may_no_longer_hold(database_url: str, make: Make) -> None:
    """Tables change under a running dashboard, and sessions may be told to forget."""
    job_id = await make.job(kind="mail")
    driver = connect(database_url, max_size=1)

    async def kind() -> str | None:
        async with driver.reading() as executor:
            job = await executor.job_text_get(job_id)
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
