"""Names of topics and groups: completed at a press of Tab, and suggested after a typing mistake.

Both ask the cluster, for a moment only: a cluster that does not answer costs no more than that moment, and is no error.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from skyrocket.cli.connection import CONNECTION_OPTIONS, ConnectionOptionError, resolve_connection
from skyrocket.cli.profiles import ProfileError
from skyrocket.client import Admin, ClientError

ASK_S_MAX: Final = 1.0
COMPLETIONS_MAX: Final = 1_000
_TOPIC_ARGUMENTS: Final = ("topic", "topics")
_GROUP_ARGUMENTS: Final = ("group", "groups", "source", "target")


async def suggest_name(admin: Admin, values: Mapping[str, Any], sentence: str) -> str:
    """Return " Did you mean 'orders'?" if an error quotes a name of the command line that is close to an existing one."""
    for arguments, is_topic in ((_TOPIC_ARGUMENTS, True), (_GROUP_ARGUMENTS, False)):
        for argument in arguments:
            given = values.get(argument)
            for name in [given] if isinstance(given, str) else given if isinstance(given, list) else []:
                if f"'{name}'" in sentence:
                    close = difflib.get_close_matches(name, await _ask_names(admin, is_topic=is_topic), n=1)
                    return f" Did you mean '{close[0]}'?" if close and close[0] != name else ""
    return ""


async def _ask_names(admin: Admin, *, is_topic: bool) -> list[str]:
    try:
        async with asyncio.timeout(ASK_S_MAX), admin:
            return await (admin.topics.names() if is_topic else admin.groups.names())
    except (ClientError, TimeoutError):
        return []


# --- completion


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics that begin with what was typed."""
    return _complete(ctx, incomplete, is_topic=True)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups that begin with what was typed."""
    return _complete(ctx, incomplete, is_topic=False)


def _complete(ctx: typer.Context, incomplete: str, *, is_topic: bool) -> list[str]:
    logging.disable(logging.CRITICAL)  # a warning would stand in the middle of the command that is being typed
    given = {name: ctx.params.get(name) or default for name, (_, default) in CONNECTION_OPTIONS.items()}
    try:
        connection = resolve_connection(**given)
        admin = Admin(connection.nameservers, **connection.client_options())
    except (ConnectionOptionError, ProfileError, ClientError):
        return []
    names = asyncio.run(_ask_names(admin, is_topic=is_topic))
    return [name for name in names if name.startswith(incomplete)][:COMPLETIONS_MAX]


TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group)]
