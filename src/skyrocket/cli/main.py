"""The command `skyrocket`. Each group of commands is a module of its own; this one has the table of them."""

from __future__ import annotations

from typing import Final

import typer

from skyrocket import __version__, compiled
from skyrocket.cli.lazy import lazy_group

COMMANDS: Final = {
    "run": "skyrocket.cli.broker:run",
    "namesrv": "skyrocket.cli.namesrv:namesrv",
    "broker": "skyrocket.cli.broker:broker",
    "topic": "skyrocket.cli.topic:app",
    "group": "skyrocket.cli.group:app",
    "send": "skyrocket.cli.send:app",
    "consume": "skyrocket.cli.consume:app",
    "query": "skyrocket.cli.query:app",
    "offset": "skyrocket.cli.offset:app",
    "cluster": "skyrocket.cli.cluster:app",
    "store": "skyrocket.cli.store:app",
    "protocol": "skyrocket.cli.protocol:app",
}

app = typer.Typer(
    name="skyrocket",
    help="Apache RocketMQ in Python. Every part swaps with Apache's.",
    cls=lazy_group(COMMANDS),
    no_args_is_help=False,
    add_completion=False,
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
