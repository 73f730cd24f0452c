"""What has been uploaded, and how far it is: the app's own tables, beside River's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from examples.documents.jobs import CancelPages, Embedding, ProcessFile, TellCustomer
from riverui import Client
from riverui.errors import WorkflowActive

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
    not u.cancelling and coalesce(bool_and(f.state not in ('processing', 'pending')), true)
        as finished,
    (select to_jsonb(p) from pages p) as pages
from upload u left join file f on true
where u.id = %(upload)s
group by u.id
"""
"""The jobs tell what failed and what waits, so nothing has to be kept in step with them."""


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
            insert = "insert into upload (id, customer) values (%s, %s) on conflict do nothing"
            if not (await connection.execute(insert, [upload, customer])).rowcount:
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
            # A job a file, and one that waits for all of them, however they end.
            workflow = client.workflow(f"{customer}: {len(files)} files", id=workflow_id(upload))
            workflow.map(
                "file",
                [ProcessFile(document, customer, embedding) for document in documents],
                then=TellCustomer(upload),
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
                [documents, [result.job.id for result in inserted[: len(documents)]]],
            )
        return True

    async def cancel(self, client: Client, upload: str) -> None:
        """Cancel what has not ended: the files now, their pages by a job. NotFound where there is
        no such upload.
        """
        async with self.pool.connection() as connection, connection.transaction():
            await client.workflow_cancel_tx(connection, workflow_id(upload))
            await client.insert_tx(connection, CancelPages(upload))
            await connection.execute("update upload set cancelling = true where id = %s", [upload])

    async def cancelled(self, upload: str) -> None:
        """Note that nothing of an upload runs any more."""
        await self._do("update upload set cancelling = false where id = %s", upload)

    async def retry(self, client: Client, upload: str) -> int:
        """Let files run again that failed or were cancelled; return how many. NotFound where there
        is no such upload, WorkflowActive while it goes on.
        """
        async with self.pool.connection() as connection, connection.transaction():
            lock = "select from upload where id = %s and cancelling for update"
            if (await connection.execute(lock, [upload])).rowcount:
                raise WorkflowActive
            workflow = workflow_id(upload)
            again = await client.workflow_retry_tx(connection, workflow, "failed_and_downstream")
        return len(again) - 1 if again else 0  # one of them tells the customer

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

    async def split(self, document: int, pages: Sequence[str], workflow: str) -> None:
        """Store the pages of a file, and the workflow that works them."""
        async with self.pool.connection() as connection, connection.transaction():
            await connection.execute(
                "insert into page (document_id, number, content) select %s, p.number, p.content"
                " from unnest(%s::text[]) with ordinality as p (content, number)"
                " on conflict do nothing",
                [document, list(pages)],
            )
            await connection.execute(
                "update document set pages = %s, workflow_id = %s where id = %s",
                [len(pages), workflow, document],
            )

    async def page_count(self, document: int) -> int:
        """Return how many pages a file that is split has."""
        return int(await self._one("select pages from document where id = %s", document))

    async def page(self, document: int, number: int) -> str | None:
        """Return what stands on a page; None while its upload is being cancelled."""
        select = (
            "select case when not u.cancelling then p.content end from page p"
            " join document d on d.id = p.document_id join upload u on u.id = d.upload_id"
            " where p.document_id = %s and p.number = %s"
        )
        content: str | None = await self._one(select, document, number)
        return content

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

    async def open_workflows(self, upload: str) -> list[str]:
        """Return the workflows of pages of files that are not done."""
        async with self.pool.connection() as connection:
            found = await connection.execute(
                "select workflow_id from document where upload_id = %s and completed_at is null"
                " and workflow_id is not null order by workflow_id",
                [upload],
            )
            return [row[0] for row in await found.fetchall()]

    async def _do(self, statement: LiteralString, *values: object) -> None:
        async with self.pool.connection() as connection:
            await connection.execute(statement, values)

    async def _one(self, select: LiteralString, *values: object) -> Any:
        async with self.pool.connection() as connection:
            row = await (await connection.execute(select, values)).fetchone()
            assert row is not None
            return row[0]


def workflow_id(upload: str) -> str:
    """Return the id of the workflow of an upload's files."""
    return f"upload-{upload}"
