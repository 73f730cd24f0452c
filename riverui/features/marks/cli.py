"""`riverui mark`: marks a deploy in charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.settings import choose, database_url, settings_options
from riverui.errors import BadRequest, ConfigError, NotSupported

if TYPE_CHECKING:
    from datetime import datetime

    from riverui.domain.marks import Mark
    from riverui.features.marks.store import MarkInsertParams


@settings_options("database_url", "schema")
@click.command("mark")
@click.argument("label")
@click.option("--url", default="", metavar="URL", help="Where to read more: http or https.")
@click.option(
    "--release",
    default="",
    metavar="NAME",
    help="Version or commit, as in the workers' release setting.",
)
@click.option(
    "--at",
    "at_text",
    default="",
    metavar="TIME",
    help="When, such as 2026-11-21T09:00:00Z; now unless given.",
)
@click.option(
    "--by", "user", default="", metavar="NAME", help="Who; the name of the login unless given."
)
@click.pass_obj
def mark(
    environ: Mapping[str, str],
    /,
    label: str,
    url: str,
    release: str,
    at_text: str,
    user: str,
    **flags: Any,
) -> int:
    """Mark a moment in charts, such as a deploy: LABEL says what happened.

    A mark with the same label within a minute is not repeated, so that a deploy of many processes
    is marked once. It needs riverui's own tables; exit code 2 without them.
    """
    from riverui.features.marks.store import MarkInsertParams
    from riverui.web.view.format import plain

    params = MarkInsertParams(
        label=label,
        at=_time(at_text) if at_text else None,
        release=release,
        url=url,
        user=user or environ.get("USER", "") or environ.get("LOGNAME", ""),
    )
    found, made = _marked(environ, flags, params)
    words = f"{plain(found.label)} at {found.at:%Y-%m-%d %H:%M} UTC"
    click.echo(f"Marked {words}." if made else f"Nothing to do: there is a mark {words}.")
    return 0


def _marked(
    environ: Mapping[str, str], flags: Mapping[str, Any], params: MarkInsertParams
) -> tuple[Mark, bool]:
    """Insert the mark; raise ConfigError if it is not valid or its table is missing."""
    import asyncio

    from riverui.features.marks.verbs import mark_insert
    from riverui.storage.connect import connect

    values = choose(flags, environ)
    driver = connect(
        database_url(values, environ), schema=values.text("schema") or None, max_size=1
    )

    async def run() -> tuple[Mark, bool]:
        try:
            return await mark_insert(driver, params)
        finally:
            await driver.close()

    try:
        return asyncio.run(run())
    except (BadRequest, NotSupported) as error:
        raise ConfigError(str(error)) from None


def _time(text: str) -> datetime:
    from riverui.domain.time import aware_instant

    if (at := aware_instant(text)) is None:
        raise ConfigError(f"--at {text[:40]}: write it with a time zone, like 2026-11-21T09:00:00Z")
    return at
