"""The app's own tables: small classes around their SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg.sql import SQL
from psycopg_pool import AsyncConnectionPool

Pool = AsyncConnectionPool[Any]
Connection = AsyncConnection[Any]


async def create_tables(pool: Pool) -> None:
    """Make the tables that are missing."""
    async with pool.connection() as connection:
        await connection.execute(Path(__file__).with_name("schema.sql").read_bytes())


@dataclass(frozen=True)
class Drawer:
    """A piece of memory."""

    id: int
    content: str


@dataclass(frozen=True)
class _Repo:
    pool: Pool


class DrawerRepo(_Repo):
    """Table `memory_drawers`."""

    async def add(
        self, workspace: str, content: str, *, memory_type: str | None, tier: str | None
    ) -> None:
        """Add a drawer: sorted by a quick path, or raw where neither type nor tier is known."""
        async with self.pool.connection() as connection:
            await connection.execute(
                """
                insert into memory_drawers (workspace, content, memory_type, pipeline_tier, state,
                importance)
                values (%s, %s, %s, %s, case when %s::text is null then 'raw' else 'processed' end,
                3)
                """,
                [workspace, content, memory_type, tier, memory_type],
            )

    async def raw(self, limit: int = 50) -> list[Drawer]:
        """Drawers that no quick path could sort, oldest first."""
        return await self._drawers("where state = 'raw' order by id limit %s", limit)

    async def unlinked(self, limit: int = 100) -> list[Drawer]:
        """Return important drawers whose entities nobody has looked for, as they took a quick
        path.
        """
        return await self._drawers(
            """
            where state = 'processed' and pipeline_tier <> 'llm' and entity_count = 0 and
            importance >= 3
            order by id limit %s
            """,
            limit,
        )

    async def sorted_by_llm(self, memory_type: str) -> list[Drawer]:
        """Return the newest drawers of a type that a model sorted; no others, lest centroids feed
        themselves.
        """
        return await self._drawers(
            """
            where pipeline_tier = 'llm' and memory_type = %s and created_at > now() - interval
            '90 days'
            order by id desc limit 500
            """,
            memory_type,
        )

    async def memory_types(self) -> list[str]:
        """Return every type that a model has given."""
        async with self.pool.connection() as connection:
            rows = await connection.execute(
                "select distinct memory_type from memory_drawers where pipeline_tier = 'llm' order"
                " by 1"
            )
            return [memory_type for (memory_type,) in await rows.fetchall()]

    async def mark_sorted(self, id: int, memory_type: str, importance: float) -> None:
        """Note that a model has sorted this drawer."""
        async with self.pool.connection() as connection:
            await connection.execute(
                """
                update memory_drawers
                set state = 'processed', pipeline_tier = 'llm', memory_type = %s, importance = %s
                where id = %s
                """,
                [memory_type, importance, id],
            )

    async def decay_and_prune(self, factor: float, floor: float) -> tuple[int, int]:
        """Make every drawer less important and remove what no longer matters; return how many faded
        and went.
        """
        async with self.pool.connection() as connection:
            faded = await connection.execute(
                "update memory_drawers set importance = importance * %s", [factor]
            )
            pruned = await connection.execute(
                "delete from memory_drawers where importance < %s", [floor]
            )
            return faded.rowcount, pruned.rowcount

    async def _drawers(self, condition: LiteralString, *values: object) -> list[Drawer]:
        async with (
            self.pool.connection() as connection,
            connection.cursor(row_factory=class_row(Drawer)) as cursor,
        ):
            await cursor.execute(
                SQL("select id, content from memory_drawers ") + SQL(condition), values
            )
            drawers: list[Drawer] = await cursor.fetchall()
            return drawers


class GraphRepo(_Repo):
    """Table `memory_entities`: which drawer speaks of what."""

    async def link(self, drawer_id: int, entities: Sequence[str]) -> None:
        """Links a drawer to its entities; again is no harm, as a job may run twice."""
        async with self.pool.connection() as connection:
            await connection.execute(
                """
                insert into memory_entities (drawer_id, entity) select %s, unnest(%s::text[])
                on conflict do nothing
                """,
                [drawer_id, list(entities)],
            )
            await connection.execute(
                "update memory_drawers set entity_count = %s where id = %s",
                [len(entities), drawer_id],
            )


class CentroidRepo(_Repo):
    """Table `memory_type_centroids`."""

    async def source_hash(self, memory_type: str) -> str | None:
        """Return what the centroid was made from."""
        async with self.pool.connection() as connection:
            rows = await connection.execute(
                "select source_hash from memory_type_centroids where memory_type = %s",
                [memory_type],
            )
            row = await rows.fetchone()
            return row[0] if row else None

    async def upsert(self, memory_type: str, vector: Sequence[float], source_hash: str) -> None:
        """Set a type's centroid."""
        async with self.pool.connection() as connection:
            await connection.execute(
                """
                insert into memory_type_centroids (memory_type, vector, source_hash) values (%s,
                %s, %s)
                on conflict (memory_type) do update
                set vector = excluded.vector, source_hash = excluded.source_hash, updated_at = now()
                """,
                [memory_type, list(vector), source_hash],
            )


class MessageRepo(_Repo):
    """Table `messages`."""

    async def add(self, connection: Connection, chat: str, text: str, *, state: str) -> int:
        """Add a message in the caller's transaction; return its id."""
        rows = await connection.execute(
            "insert into messages (chat, text, state) values (%s, %s, %s) returning id",
            [chat, text, state],
        )
        row = await rows.fetchone()
        assert row is not None
        return int(row[0])

    async def fail_stale_pending(self, older_than: timedelta) -> int:
        """Give up on messages that have waited too long; return how many."""
        async with self.pool.connection() as connection:
            failed = await connection.execute(
                "update messages set state = 'failed' where state = 'pending' and created_at <"
                " now() - %s",
                [older_than],
            )
            return int(failed.rowcount)


class PricingRepo(_Repo):
    """Table `model_pricing`."""

    async def add(self, prices: Mapping[str, tuple[float, float]]) -> None:
        """Add rows, one a model; old ones stay, as past usage was billed by them."""
        async with self.pool.connection() as connection, connection.cursor() as cursor:
            await cursor.executemany(
                "insert into model_pricing (model, input_usd, output_usd) values (%s, %s, %s)",
                [(model, *price) for model, price in prices.items()],
            )
