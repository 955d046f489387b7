"""The command `skyrocket`. Each group of commands is a module of its own; this one has the table of them."""

from __future__ import annotations

from typing import Final

import typer

from skyrocket import __version__, compiled
from skyrocket.cli.lazy import LazyCommand, lazy_group

COMMANDS: Final = {
    "run": LazyCommand(
        "skyrocket.cli.broker:run", "Run a nameserver and a broker in this process: a whole RocketMQ for development and tests."
    ),
    "namesrv": LazyCommand(
        "skyrocket.cli.namesrv:namesrv", "Run a nameserver: brokers register with it, clients ask it where topics are."
    ),
    "broker": LazyCommand(
        "skyrocket.cli.broker:broker", "Run a broker. It stores messages, and tells the nameservers about its topics."
    ),
    "topic": LazyCommand("skyrocket.cli.topic:app", "Topics: make, change, list, look at, delete."),
    "group": LazyCommand("skyrocket.cli.group:app", "Groups of consumers: make, change, list, look at, delete."),
    "send": LazyCommand("skyrocket.cli.send:app", "Send a message, or many. Prints the receipt of each."),
    "consume": LazyCommand(
        "skyrocket.cli.consume:app", "Print messages as they come: one a line, and with --json one JSON document a line."
    ),
    "query": LazyCommand("skyrocket.cli.query:app", "Messages, found by key, id or place."),
    "offset": LazyCommand("skyrocket.cli.offset:app", "Offsets: where groups are in a topic's queues, and moving them."),
    "cluster": LazyCommand("skyrocket.cli.cluster:app", "The cluster: its brokers, how they are, and their settings."),
    "store": LazyCommand(
        "skyrocket.cli.store:app", "Look into a store directory, ours or Apache's, without a broker and without changing it."
    ),
    "protocol": LazyCommand(
        "skyrocket.cli.protocol:app", "RocketMQ's wire format: the table of requests, and captured frames explained."
    ),
}

app = typer.Typer(
    name="skyrocket",
    help="Apache RocketMQ in Python. Every part swaps with Apache's.",
    cls=lazy_group(COMMANDS),
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
)


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    """Without a command: what is there."""
    if version:
        typer.echo(f"{__version__} ({compiled.kind()})")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(what_is_there())


def what_is_there() -> str:
    return "\n".join(
        (
            f"skyrocket {__version__}: Apache RocketMQ in Python.",
            "",
            "Servers",
            "  skyrocket run                        a nameserver and a broker, for any RocketMQ client",
            "  skyrocket namesrv, skyrocket broker  each by itself",
            "",
            "A cluster, ours or Apache's (-n host:port, or NAMESRV_ADDR)",
            "  skyrocket topic create orders --queues 8",
            "  skyrocket send orders --body hello --tag paid --key o-7",
            "  skyrocket consume orders --group coupons --from first",
            "  skyrocket query key orders o-7",
            "  skyrocket group list, skyrocket offset reset coupons orders --to first, skyrocket cluster show",
            "",
            "Files and frames",
            "  skyrocket store verify DIR           is this store directory sound?",
            "  skyrocket store dump DIR --json      its messages",
            "  skyrocket protocol decode HEX        a captured frame, explained",
            "",
            "Not there yet: replication, Spark, console. skyrocket --help tells all commands.",
        )
    )
