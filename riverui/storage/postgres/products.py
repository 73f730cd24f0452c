"""The servers that speak Postgres's protocol: what each lacks, and the SQL that it takes."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

from riverui.storage.interface import (
    CAPABILITIES,
    LISTENING,
    MIGRATIONS,
    NOTIFYING,
    REINDEXING,
    REPLICATION,
    TRANSACTION_STATUS,
    WORKING,
    Capability,
)

YUGABYTE = "YugabyteDB"
"""Speaks Postgres's protocol, and says what it is in its version."""

_READ_COMMITTED = "read committed"
_VERSION = re.compile(r"(?:(\w+)\.)?\bxmin::text")
_ROW = re.compile(r"\bctid\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """A kind of server, as it is set up."""

    name: str = "PostgreSQL"
    lacks: frozenset[Capability[Any]] = frozenset()
    """What cannot be offered on it."""
    notifies: bool = True
    """Whether NOTIFY can be called: where it cannot, a statement that does fails as a whole."""
    system_columns: bool = True
    """Whether rows have `xmin`, `xmax` and `ctid`."""
    isolation: str = _READ_COMMITTED
    """What a transaction gets that asks for Read Committed."""

    @property
    def offers(self) -> frozenset[Capability[Any]]:
        """What a driver offers."""
        return frozenset(CAPABILITIES) - self.lacks

    @property
    def executor_offers(self) -> frozenset[Capability[Any]]:
        """What its executors offer: all but what the driver does by itself."""
        return self.offers - {LISTENING, MIGRATIONS, WORKING}

    def adapted(self, sql: str) -> str:
        """Return SQL as this server takes it."""
        if not self.notifies:
            # Takes the same texts, gives one, and does nothing.
            sql = sql.replace("pg_notify(", "concat(")
        if not self.system_columns:
            sql = _VERSION.sub(lambda found: f"md5(({found[1] or 'river_job'})::text)", sql)
            sql = _ROW.sub("ybctid", sql)
        return sql


POSTGRES = Product()
log = logging.getLogger("riverui")


def yugabyte(*, notifies: str | None, isolation: str | None) -> Product:
    """Return YugabyteDB by what a server says of its own settings; None is what it lacks."""
    lacks = {REINDEXING, REPLICATION, TRANSACTION_STATUS}
    if notifies != "on":
        lacks |= {LISTENING, NOTIFYING}
    return Product(
        name=YUGABYTE,
        lacks=frozenset(lacks),
        notifies=notifies == "on",
        system_columns=False,
        isolation=isolation or _READ_COMMITTED,
    )


def tell(product: Product) -> None:
    """Tell the log what is to be known of a server that is not Postgres."""
    log.warning("%s is not tested with riverui: see docs/operate/databases.md", product.name)
    if not product.notifies:
        log.info(
            "%s sends no notifications (ysql_yb_enable_listen_notify is off): jobs, cancellations"
            " and pauses are found by polling",
            product.name,
        )
    if product.isolation != _READ_COMMITTED:
        log.warning(
            "transactions of %s are %s: statements that meet fail, until its TServers have"
            " yb_enable_read_committed_isolation=true",
            product.name,
            product.isolation,
        )
