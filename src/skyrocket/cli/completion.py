"""`skyrocket completion`: print the script that makes a shell complete commands and options.

At each press of Tab the script runs `skyrocket` with the variable _SKYROCKET_COMPLETE, and `lazy_commands` answers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

PROGRAM: Final = "skyrocket"
VARIABLE: Final = "_SKYROCKET_COMPLETE"


class Shell(StrEnum):
    """The shells that have a script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a script that completes commands and options in your shell.

    For bash, put this line into ~/.bashrc: eval "$(skyrocket completion bash)"

    For zsh, put this line into ~/.zshrc, after compinit: eval "$(skyrocket completion zsh)"

    For fish: skyrocket completion fish > ~/.config/fish/completions/skyrocket.fish
    """
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))
