"""`skyrocket cluster …`."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.asking import Reach, asks, pairs
from skyrocket.cli.printing import Answer, moment, table

app = typer.Typer(no_args_is_help=True)

Broker = Annotated[str, typer.Argument(metavar="BROKER", help="Its name, or host:port.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change this, by Apache's name.")]


@asks(app)
async def show(reach: Reach) -> Answer:
    """All brokers."""
    async with reach.admin() as admin:
        states = await admin.cluster.states()
    rows = [
        (
            one.cluster,
            one.broker_name,
            "master" if one.is_master else f"slave {one.broker_id}",
            one.address,
            one.version or "-",
            f"{one.put_rate:.1f}",
            f"{one.get_rate:.1f}",
            one.messages_today,
            f"{one.disk_used_percent:.1f} %",
            moment(one.started_ms) if not one.error else one.error,
        )
        for one in states
    ]
    head = ("CLUSTER", "BROKER", "ROLE", "ADDRESS", "VERSION", "IN/S", "OUT/S", "TODAY", "DISK", "UP SINCE")
    return Answer(states, table(head, rows, "The nameservers know no broker."))


@asks(app)
async def info(reach: Reach, broker: Broker) -> Answer:
    """Everything that a broker says of itself."""
    async with reach.admin() as admin:
        found = await admin.cluster.runtime(broker)
    return Answer(found, table(("NAME", "VALUE"), found.items()))


@asks(app)
async def config(reach: Reach, broker: Broker, sets: Sets = None) -> Answer:
    """A broker's settings; with --set, change some first."""
    changes = pairs(sets, "A setting")
    async with reach.admin() as admin:
        if changes:
            await admin.cluster.update_config(broker, changes)
        found = await admin.cluster.config(broker)
    return Answer(found, table(("SETTING", "VALUE"), found.items()))


@asks(app)
async def namesrv(reach: Reach, sets: Sets = None) -> Answer:
    """The nameservers' settings; with --set, change some at each of them first."""
    changes = pairs(sets, "A setting")
    async with reach.admin() as admin:
        if changes:
            await admin.cluster.update_nameserver_config(changes)
        found = await admin.cluster.nameserver_config()
    rows = [(address, name, value) for address, settings in found.items() for name, value in settings.items()]
    return Answer(found, table(("NAMESERVER", "SETTING", "VALUE"), rows))


@asks(app)
async def producers(reach: Reach, group: Annotated[str | None, typer.Argument(metavar="[GROUP]")] = None) -> Answer:
    """Producers that are connected, of one group or of all."""
    async with reach.admin() as admin:
        found = await admin.groups.producers(group)
    rows = [(one.group, one.client_id, one.address, one.language, one.version) for one in found]
    return Answer(found, table(("GROUP", "CLIENT", "ADDRESS", "LANGUAGE", "VERSION"), rows, "No producer is connected."))
