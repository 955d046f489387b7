"""The command `skyrocket`. Each group of commands is a module of its own; this one gathers them."""

from __future__ import annotations

import typer

from skyrocket import __version__
from skyrocket.cli import protocol, store
from skyrocket.cli.broker import broker, run
from skyrocket.cli.namesrv import namesrv

app = typer.Typer(
    name="skyrocket",
    help="Apache RocketMQ in Python. Every part swaps with Apache's.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(protocol.app, name="protocol")
app.add_typer(store.app, name="store")
app.command()(run)
app.command()(namesrv)
app.command()(broker)


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    """Without a command: what is there."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(what_is_there())


def what_is_there() -> str:
    return "\n".join(
        (
            f"skyrocket {__version__}: Apache RocketMQ in Python.",
            "",
            "What works today",
            f"  protocol     {protocol.summary()}",
            "  store        commit log, queues, index, recovery; read offline; Apache's files",
            "  nameserver   routes for Apache's brokers and clients, and ours",
            "  broker       send, pull, groups, offsets, administration",
            "",
            "Not there yet: retry, delays, queries; client, Spark, console.",
            "",
            "Try",
            "  skyrocket run                       a nameserver and a broker, for any RocketMQ client",
            "  skyrocket store verify DIR          is this store directory sound?",
            "  skyrocket store dump DIR --json     its messages",
            "  skyrocket protocol decode HEX       a captured frame, explained",
            "  skyrocket --help",
        )
    )
