"""`dslc completion`: the script that teaches a shell to complete dslc's commands."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and files in SHELL.

    \b
    To install it:
        bash   dslc completion bash > ~/.dslc-complete.bash
               echo '. ~/.dslc-complete.bash' >> ~/.bashrc
        zsh    dslc completion zsh > ~/.dslc-complete.zsh
               echo '. ~/.dslc-complete.zsh' >> ~/.zshrc
        fish   dslc completion fish > ~/.config/fish/completions/dslc.fish
    """
    script = SHELLS[shell](context.find_root().command, {}, "dslc", "_DSLC_COMPLETE")
    # Not script.source(): for bash that runs the installed bash to look at its version.
    click.echo(script.source_template % script.source_vars())
