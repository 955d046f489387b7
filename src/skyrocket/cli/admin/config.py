"""`skyrocket config …`: show and change settings of brokers and nameservers at run time."""

from __future__ import annotations

import difflib
from typing import Annotated, Final

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command, parse_pairs
from skyrocket.cli.confirmation import Plan
from skyrocket.cli.output import CommandResult, format_table
from skyrocket.client import Admin, NotFoundError
from skyrocket.client.admin.secret_settings import hide_secrets

app = typer.Typer(no_args_is_help=True, add_completion=False)

NAMESERVERS: Final = "namesrv"
Target = Annotated[
    str, typer.Argument(metavar="SERVER", help=f"A broker's name or host:port, or '{NAMESERVERS}' for every nameserver.")
]
Settings = dict[str, dict[str, str]]  # by server


@cluster_command(app)
async def show(options: CommandOptions, server: Target) -> CommandResult:
    """Show all settings of a broker, or of every nameserver."""
    async with options.admin() as admin:
        found = await _read(admin, server)
    if server == NAMESERVERS:
        rows = [(address, name, value) for address, settings in found.items() for name, value in settings.items()]
        return CommandResult(found, format_table(("NAMESERVER", "SETTING", "VALUE"), rows))
    return CommandResult(found[server], format_table(("SETTING", "VALUE"), found[server].items()))


@cluster_command(app)
async def get(
    options: CommandOptions,
    server: Target,
    names: Annotated[list[str], typer.Argument(metavar="SETTINGS", help="Names of settings, Apache's.")],
) -> CommandResult:
    """Print the values of settings, one per line: for one setting of one server, the value alone."""
    async with options.admin() as admin:
        found = await _read(admin, server)
    chosen = {address: {name: _value(settings, name, address) for name in names} for address, settings in found.items()}
    document = chosen if server == NAMESERVERS else chosen[server]
    rows = [(address, name, value) for address, settings in chosen.items() for name, value in settings.items()]
    text = rows[0][2] if len(rows) == 1 else "\n".join(f"{address}  {name}={value}" for address, name, value in rows)
    return CommandResult(document, text)


@cluster_command(app, "set", destroys=True)
async def change(
    options: CommandOptions,
    server: Target,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Settings to change.")],
) -> CommandResult:
    """Change settings of a running broker, or of every nameserver. The server refuses those that are fixed at run time."""
    changes = parse_pairs(pairs, "A setting")
    async with options.admin() as admin:
        before = await _read(admin, server)
        for address, settings in before.items():
            for name in changes:
                _value(settings, name, address)
        plan = _plan(before, hide_secrets(changes))
        if not options.confirmation.allows(plan):
            return plan.dry_result()
        if server == NAMESERVERS:
            await admin.cluster.update_nameserver_config(changes)
        else:
            await admin.cluster.update_config(server, changes)
        after = await _read(admin, server)
    chosen = {address: {name: settings.get(name, "") for name in changes} for address, settings in after.items()}
    rows = [(address, name, before[address][name], value) for address, found in chosen.items() for name, value in found.items()]
    document = chosen if server == NAMESERVERS else chosen[server]
    return CommandResult(document, format_table(("SERVER", "SETTING", "BEFORE", "NOW"), rows))


async def _read(admin: Admin, server: str) -> Settings:
    if server == NAMESERVERS:
        return await admin.cluster.nameserver_config()
    return {server: await admin.cluster.config(server)}


def _value(settings: dict[str, str], name: str, server: str) -> str:
    """Return a setting. Raise NotFoundError, with a close name, if the server has none of this name."""
    if name in settings:
        return settings[name]
    close = difflib.get_close_matches(name, settings, n=1)
    raise NotFoundError(f"{server} has no setting '{name}'.{f' Did you mean {close[0]}?' if close else ''}")


def _plan(before: Settings, changes: dict[str, str]) -> Plan:
    rows = [(address, name, settings[name], value) for address, settings in before.items() for name, value in changes.items()]
    table = format_table(("SERVER", "SETTING", "NOW", "THEN"), rows)
    count = len(changes)
    sentence = f"{count} setting{'s' if count > 1 else ''} of {', '.join(before)} will be changed."
    document = {"changes": [{"server": row[0], "setting": row[1], "now": row[2], "then": row[3]} for row in rows]}
    return Plan(sentence, document, table)
