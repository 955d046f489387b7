"""`skyrocket cluster …`: the state of brokers, and connected producers. `config` has their settings."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command
from skyrocket.cli.confirmation import Plan
from skyrocket.cli.output import CommandResult, format_table, format_time
from skyrocket.client import NotFoundError
from skyrocket.client.admin import BrokerInfo, BrokerState

app = typer.Typer(no_args_is_help=True, add_completion=False)

BrokerName = Annotated[str, typer.Argument(metavar="BROKER", help="The broker's name.")]
Broker = Annotated[str, typer.Argument(metavar="BROKER", help="The broker's name, or host:port.")]


@cluster_command(app)
async def show(options: CommandOptions) -> CommandResult:
    """List all brokers with their state."""
    async with options.admin() as admin:
        states = await admin.cluster.states()
    rows = [
        (
            one.cluster,
            one.broker_name,
            _format_role(one, states),
            one.address,
            _format_version(one),
            f"{one.put_rate:.1f}",
            f"{one.get_rate:.1f}",
            one.messages_today,
            f"{one.disk_used_percent:.1f} %",
            format_time(one.started_ms) if not one.error else one.error,
        )
        for one in states
    ]
    head = ("CLUSTER", "BROKER", "ROLE", "ADDRESS", "VERSION", "IN/S", "OUT/S", "TODAY", "DISK", "UP SINCE")
    return CommandResult(states, format_table(head, rows, "No broker is registered with the nameservers."))


def _format_version(one: BrokerState) -> str:
    """Say which version of RocketMQ a broker is to its clients; of ours also which one it is itself."""
    ours = one.skyrocket_version.partition(" ")[0]
    return f"{one.version} (skyrocket {ours})" if ours else one.version or "-"


def _format_role(one: BrokerState, states: list[BrokerState]) -> str:
    """Say a broker's role; of a node of a DLedger group also its term, and how many entries of the leader it lacks."""
    role = "master" if one.is_master else f"slave {one.broker_id}"
    if not one.node:
        return role
    leaders = (other for other in states if other.broker_name == one.broker_name and other.node_role == "LEADER")
    end = max((other.end_index for other in leaders), default=one.end_index)
    behind = "" if one.node_role == "LEADER" else f", {max(0, end - one.end_index)} behind"
    damaged = f", {one.damaged_entries} damaged" if one.damaged_entries else ""
    return f"{role}: {one.node} {one.node_role.lower()}, term {one.term}{behind}{damaged}"


@cluster_command(app, name="transfer-leader")
async def transfer_leader(
    options: CommandOptions,
    broker: Broker,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's id, such as n1.")],
) -> CommandResult:
    """Make a node the leader of its DLedger group."""
    async with options.admin() as admin:
        await admin.cluster.transfer_leader(broker, node)
    return CommandResult({"leader": node}, f"Node {node} leads the group of {broker}.")


@cluster_command(app, destroys=True)
async def drain(options: CommandOptions, name: BrokerName) -> CommandResult:
    """Take a broker out of the routes of producers: they send to other brokers, and consumers go on."""
    async with options.admin() as admin:
        plan = _plan_drain(name, await admin.cluster.brokers())
        if not options.confirmation.allows(plan):
            return plan.dry_result()
        topics = await admin.cluster.drain(name)
    sentence = f"Producers are told not to send to {name}, for {topics} topics. They learn it with their next routes, every 30 s."
    return CommandResult({"drained": name, "topics": topics}, sentence)


def _plan_drain(name: str, brokers: list[BrokerInfo]) -> Plan:
    cluster = next((one.cluster for one in brokers if one.broker_name == name), "")
    others = sorted({one.broker_name for one in brokers if one.is_master and one.cluster == cluster} - {name})
    left = f"Left for them: {', '.join(others)}." if others else "No other broker of its cluster is left for them."
    return Plan(f"Producers will send no more to broker {name}. {left}", {"broker": name, "left": others})


@cluster_command(app, destroys=True)
async def undrain(options: CommandOptions, name: BrokerName) -> CommandResult:
    """Put a broker back into the routes of producers."""
    plan = Plan(
        f"Producers will send to broker {name} again: routes say so of all its topics, read-only ones too.", {"broker": name}
    )
    if not options.confirmation.allows(plan):
        return plan.dry_result()
    async with options.admin() as admin:
        topics = await admin.cluster.undrain(name)
    return CommandResult({"undrained": name, "topics": topics}, f"Producers may send to {name}, for {topics} topics.")


@cluster_command(app)
async def info(options: CommandOptions, broker: Broker) -> CommandResult:
    """Show all runtime figures of a broker."""
    async with options.admin() as admin:
        found = await admin.cluster.runtime(broker)
    return CommandResult(found, format_table(("NAME", "VALUE"), found.items()))


@cluster_command(app)
async def producers(
    options: CommandOptions, group: Annotated[str | None, typer.Argument(metavar="[GROUP]")] = None
) -> CommandResult:
    """List the connected producers of one group, or of all groups."""
    async with options.admin() as admin:
        found = await admin.groups.producers(group)
    if group is not None and not found:
        raise NotFoundError(f"No producer of group '{group}' is connected.")
    rows = [(one.group, one.client_id, one.address, one.language, one.version) for one in found]
    return CommandResult(
        found, format_table(("GROUP", "CLIENT", "ADDRESS", "LANGUAGE", "VERSION"), rows, "No producer is connected.")
    )
