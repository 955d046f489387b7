"""A group of commands that imports a command's module only when that command runs.

So `skyrocket --help` imports no command, `skyrocket broker` does not import the client, and `skyrocket topic` does not import the
broker.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]  # typer has no public name for items
from typer.main import get_command

_NEVER_WRAPPED = "10000"  # columns: typer wraps help texts, and a shell takes each line for one completion


class LazyCommand(NamedTuple):
    """The location of a command, and its line in the list of commands."""

    location: str  # module:attribute; a function is one command, a typer.Typer is a group of commands
    help: str


class LazyGroup(TyperGroup):
    """A command group that looks commands up in `table`. `lazy_group` makes a subclass for one table."""

    table: ClassVar[Mapping[str, LazyCommand]] = {}  # by command name, in the order of the help text

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name, self.table[cmd_name])
        return self.commands[cmd_name]

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return completions of a command's name from the table, so that Tab imports no command."""
        names = [(name, command.help) for name, command in self.table.items() if name.startswith(incomplete)]
        own_options = super(TyperGroup, self).shell_complete(ctx, incomplete)  # TyperGroup's would load the commands
        return [CompletionItem(name, help=text) for name, text in names] + own_options

    def _main_shell_completion(self, ctx_args: Any, prog_name: str, complete_var: str | None = None) -> None:
        """Answer a script of `skyrocket completion`. Typer knows the shells only once this asks it to."""
        variable = complete_var or f"_{prog_name}_COMPLETE".replace("-", "_").upper()
        instruction = os.environ.get(variable)
        if instruction:
            from typer import completion  # noqa: PLC0415 — only at a press of Tab

            completion.completion_init()  # type: ignore[attr-defined]
            os.environ["COLUMNS"] = _NEVER_WRAPPED
            first, _, second = instruction.partition("_")
            if second in ("source", "complete"):  # other programs write bash_source, typer source_bash
                first, second = second, first
                os.environ[variable] = f"{first}_{second}"
            if first == "source" or second == "zsh":
                _use_our_script(first, second)
        super()._main_shell_completion(ctx_args, prog_name, complete_var)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Suggest a close one from the table, since typer knows only commands that are loaded."""
        if args and args[0] not in self.table and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 — only after a mistake

            close = get_close_matches(args[0], self.table, n=1)
            if close and not ctx.resilient_parsing:
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{close[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.table.items()])


def _use_our_script(action: str, shell: str) -> None:
    """Print our script for a shell and exit, or make our answers for zsh those that typer gives."""
    from typer._click.shell_completion import add_completion_class  # noqa: PLC0415 — only at a press of Tab

    from skyrocket.cli.completion import SCRIPTS, ZshAnswers  # noqa: PLC0415

    if action == "source" and shell in SCRIPTS:
        typer.echo(SCRIPTS[shell])
        raise SystemExit(0)
    add_completion_class(ZshAnswers, shell)


def lazy_group(table: Mapping[str, LazyCommand]) -> type[LazyGroup]:
    """Return a group class for typer that loads the commands of `table` on first use."""
    return type("Commands", (LazyGroup,), {"table": dict(table)})


def _load(name: str, lazy: LazyCommand) -> Any:
    module, _, attribute = lazy.location.partition(":")
    app = getattr(importlib.import_module(module), attribute)
    if not isinstance(app, typer.Typer):
        function, app = app, typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        app.command(name)(function)
    app.rich_markup_mode = None  # plain text: importing rich takes longer than the rest of a help text
    command = get_command(app)
    command.name = name
    command.help = command.help or lazy.help
    return command
