"""Commands that are loaded when they are asked for: a broker does not carry the client, nor `skyrocket topic` the broker."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command


class LazyGroup(TyperGroup):
    table: ClassVar[Mapping[str, str]] = {}  # name -> module:attribute, in the order of the help

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _loaded(cmd_name, self.table[cmd_name])
        return self.commands[cmd_name]


def lazy_group(table: Mapping[str, str]) -> type[LazyGroup]:
    return type("Commands", (LazyGroup,), {"table": dict(table)})


def _loaded(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        found.command(name)(function)
    command = get_command(found)
    command.name = name
    return command
