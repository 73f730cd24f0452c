"""`riverui token`: creates an API token and its line for the settings."""

from __future__ import annotations

import click


@click.command("token")
@click.argument("name")
@click.option(
    "--rights",
    default="read",
    metavar="RIGHTS",
    help="all, read, or rights joined by +, such as jobs.read+jobs.retry.",
    show_default=True,
)
def token(name: str, rights: str) -> int:
    """Create an API token called NAME; print the token, and the line that allows it.

    The token is shown only once. Put the line, which does not reveal it, into RIVERUI_API_TOKENS or
    the file of RIVERUI_API_TOKENS_FILE.
    """
    from riverui.web.auth.tokens import new_token

    made, line = new_token(name, rights)
    click.echo(f"token: {made}\nline:  {line}")
    return 0
