"""Uploads and their progress: the app's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from examples.documents.jobs import Embedding, NotifyCustomer, ProcessFile
from riverui import Client
from riverui.errors import NotFound

Connection = AsyncConnection[Any]

_PROGRESS = """
with file as (
    select case
        when d.completed_at is not null then 'completed'
        when j.state = 'cancelled' then 'cancelled'
        when j.id is null or j.state = 'discarded' then 'failed'
        when j.state = 'available' and d.pages is null then 'pending'
        else 'processing'
    end as state
    from document d left join river_job j on j.id = d.job_id
    where d.upload_id = %(upload)s
), pages as (
    select count(*) as split, count(p.vector) as embedded, count(i.page) as indexed
    from document d
    join page p on p.document_id = d.id
    left join search_index i on i.document_id = p.document_id and i.page = p.number
    where d.upload_id = %(upload)s
)
select u.id as upload, u.customer,
    count(f.state) as total,
    count(*) filter (where f.state = 'completed') as completed,
    count(*) filter (where f.state = 'failed') as failed,
    count(*) filter (where f.state = 'cancelled') as cancelled,
    count(*) filter (where f.state = 'processing') as processing,
    count(*) filter (where f.state = 'pending') as pending,
    coalesce(bool_and(f.state not in ('processing', 'pending')), true) as finished,
    (select to_jsonb(p) from pages p) as pages
from upload u left join file f on true
where u.id = %(upload)s
group by u.id
"""
"""States come from the jobs, so there are no counters to keep in sync."""


@dataclass(frozen=True)
class Uploads:
    """The app's own tables, over a pool that finds them without a prefix."""

    pool: AsyncConnectionPool[Any]

    async def create_tables(self) -> None:
        """Make the tables that are missing."""
        async with self.pool.connection() as connection, connection.transaction():
            # One replica at a time: `create if not exists` does not wait for another's.
            await connection.execute("select pg_advisory_xact_lock(hashtext('documents'))")
            await connection.execute(Path(__file__).with_name("schema.sql").read_bytes())

    async def add(
        self,
        client: Client,
        upload: str,
        customer: str,
        files: Sequence[tuple[str, str]],
        embedding: Embedding,
    ) -> bool:
        """Store files, names with contents, and insert their jobs: both or neither. Return False
        for an upload that is there already, as a webhook may call twice.
        """
        async with self.pool.connection() as connection, connection.transaction():
            # A job a file, and one that waits for all of them, however they end.
            workflow = client.workflows.new(f"{customer}: {len(files)} files")
            insert = "insert into upload values (%s, %s, %s) on conflict do nothing"
            if not (await connection.execute(insert, [upload, customer, workflow.id])).rowcount:
                return False
            found = await connection.execute(
                """
                insert into document (upload_id, name, content)
                select %s, f.name, f.content
                from unnest(%s::text[], %s::text[]) with ordinality as f (name, content, place)
                order by f.place
                returning id
                """,
                [upload, [name for name, _ in files], [content for _, content in files]],
            )
            documents = [row[0] for row in await found.fetchall()]
            jobs = [
                ProcessFile(document, name, customer, embedding)
                for document, (name, _) in zip(documents, files, strict=True)
            ]
            workflow.map(
                "file",
                jobs,
                then=NotifyCustomer(upload),
                ignore_cancelled_deps=True,
                ignore_discarded_deps=True,
                ignore_deleted_deps=True,
            )
            inserted = await workflow.insert_tx(connection)
            await connection.execute(
                """
                update document d set job_id = j.id
                from unnest(%s::bigint[], %s::bigint[]) as j (document, id)
                where d.id = j.document
                """,
                [documents, [result.job.id for result in inserted[: len(jobs)]]],
            )
        return True

    async def workflow(self, upload: str) -> str:
        """Return the workflow of an upload's files. NotFound where there is no such upload."""
        async with self.pool.connection() as connection:
            select = "select workflow_id from upload where id = %s"
            row = await (await connection.execute(select, [upload])).fetchone()
            if row is None:
                raise NotFound("There is no such upload.")
            return str(row[0])

    async def progress(self, upload: str) -> dict[str, Any] | None:
        """Return how far an upload is; None where there is none."""
        async with self.pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(_PROGRESS, {"upload": upload})
            row: dict[str, Any] | None = await cursor.fetchone()
            return row

    async def content(self, document: int) -> str:
        """Return what a file holds."""
        return str(await self._one("select content from document where id = %s", document))

    async def split(self, document: int, pages: Sequence[str]) -> None:
        """Store the pages of a file."""
        async with self.pool.connection() as connection, connection.transaction():
            await connection.execute(
                "insert into page (document_id, number, content) select %s, p.number, p.content"
                " from unnest(%s::text[]) with ordinality as p (content, number)"
                " on conflict do nothing",
                [document, list(pages)],
            )
            update = "update document set pages = %s where id = %s"
            await connection.execute(update, [len(pages), document])

    async def page_count(self, document: int) -> int:
        """Return how many pages a file that is split has."""
        return int(await self._one("select pages from document where id = %s", document))

    async def page(self, document: int, number: int) -> str:
        """Return what stands on a page."""
        select = "select content from page where document_id = %s and number = %s"
        return str(await self._one(select, document, number))

    async def embedded(self, document: int, number: int, vector: Sequence[float]) -> None:
        """Store the vector of a page."""
        update = "update page set vector = %s where document_id = %s and number = %s"
        await self._do(update, list(vector), document, number)

    async def index(self, documents: Sequence[int]) -> int:
        """Send the pages of files to the search index in one request; return how many are new."""
        async with self.pool.connection() as connection:
            sent = await connection.execute(
                "insert into search_index select document_id, number, vector from page"
                " where document_id = any(%s) on conflict do nothing",
                [list(documents)],
            )
            return int(sent.rowcount)

    async def complete(self, document: int) -> None:
        """Note that a file is done."""
        await self._do("update document set completed_at = now() where id = %s", document)

    async def _do(self, statement: LiteralString, *values: object) -> None:
        async with self.pool.connection() as connection:
            await connection.execute(statement, values)

    async def _one(self, select: LiteralString, *values: object) -> Any:
        async with self.pool.connection() as connection:
            row = await (await connection.execute(select, values)).fetchone()
            assert row is not None
            return row[0]
