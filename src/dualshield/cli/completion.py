"""``dualshield completion``: commands and options at the press of a key."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

PROGRAM, VARIABLE = "dualshield", "_DUALSHIELD_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in your shell.

    \b
    bash:  dualshield completion bash >> ~/.bashrc
    zsh:   dualshield completion zsh >> ~/.zshrc
    fish:  dualshield completion fish > ~/.config/fish/completions/dualshield.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # Not the method of the class: that of bash runs bash to find its version.
    click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE)))
