"""`riverui token`: a new API token and the line that lets it in."""

from __future__ import annotations

import click


@click.command("token")
@click.argument("name")
@click.option(
    "--rights",
    default="read",
    metavar="RIGHTS",
    help="all, read, or names of rights joined by +, such as jobs.read+jobs.retry.",
    show_default=True,
)
def token(name: str, rights: str) -> int:
    """Make an API token called NAME: prints the token, and the line to keep of it.

    The token is shown this once. The line, which does not give it away, belongs into RIVERUI_API_TOKENS or
    into the file that RIVERUI_API_TOKENS_FILE names.
    """
    from riverui.web.tokens import new_token

    made, line = new_token(name, rights)
    click.echo(f"token: {made}\nline:  {line}")
    return 0
