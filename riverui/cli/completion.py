"""`riverui completion`: what makes a shell complete commands, flags and names."""

from __future__ import annotations

import click

_BEFORE = {"zsh": "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"}
"""What a shell needs first: zsh completes nothing by itself before its `compinit`."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> int:
    """Print what makes SHELL complete riverui's commands, flags, and names of the database.

    For bash: source <(riverui completion bash), for instance in ~/.bashrc.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    if shell in _BEFORE:
        click.echo(_BEFORE[shell])
    click.echo(found(ctx.find_root().command, {}, "riverui", "_RIVERUI_COMPLETE").source())
    return 0
