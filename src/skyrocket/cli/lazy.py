"""A group of commands whose modules are imported only when a command runs.

`skyrocket --help` imports no command at all, a broker does not import the client, nor does `skyrocket topic` import the broker.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command


class LazyCommand(NamedTuple):
    """Where a command is, and the line about it in the list of commands."""

    place: str  # module:attribute; a function is one command, a typer.Typer a group of them
    help: str


class LazyGroup(TyperGroup):
    table: ClassVar[Mapping[str, LazyCommand]] = {}  # by name, in the order of the help

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name, self.table[cmd_name])
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.table.items()])


def lazy_group(table: Mapping[str, LazyCommand]) -> type[LazyGroup]:
    return type("Commands", (LazyGroup,), {"table": dict(table)})


def _load(name: str, lazy: LazyCommand) -> Any:
    module, _, attribute = lazy.place.partition(":")
    app = getattr(importlib.import_module(module), attribute)
    if not isinstance(app, typer.Typer):
        function, app = app, typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        app.command(name)(function)
    app.rich_markup_mode = None  # plain text: importing rich takes longer than the rest of a help text
    command = get_command(app)
    command.name = name
    command.help = command.help or lazy.help
    return command
