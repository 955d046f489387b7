"""The command `skyrocket`: the table of its commands, each of which lives in its own module."""

from __future__ import annotations

from typing import Final

import typer

from skyrocket import __version__, compiled
from skyrocket.cli.lazy_commands import LazyCommand, lazy_group

COMMANDS: Final = {
    "run": LazyCommand(
        "skyrocket.cli.broker:run", "Run a nameserver and a broker, or --brokers N: a whole RocketMQ on one machine."
    ),
    "namesrv": LazyCommand(
        "skyrocket.cli.namesrv:namesrv", "Run a nameserver. Brokers register with it, and clients look up routes in it."
    ),
    "broker": LazyCommand(
        "skyrocket.cli.broker:broker", "Run a broker. It stores messages and registers its topics with the nameservers."
    ),
    "proxy": LazyCommand(
        "skyrocket.cli.proxy:proxy", "Run a proxy: one address in front of a cluster whose brokers clients cannot reach."
    ),
    "topic": LazyCommand("skyrocket.cli.admin.topic:app", "Create, change, list, show and delete topics."),
    "group": LazyCommand("skyrocket.cli.admin.group:app", "Create, change, list, show and delete consumer groups."),
    "send": LazyCommand("skyrocket.cli.messages.send:app", "Send one message or many, and print the receipt of each."),
    "consume": LazyCommand(
        "skyrocket.cli.messages.consume:app",
        "Print messages as they arrive, one per line; with --json, one JSON document per line.",
    ),
    "tail": LazyCommand(
        "skyrocket.cli.messages.tail:app",
        "Follow a topic: print messages as they arrive, until Ctrl-C. It joins no group and stores no offset.",
    ),
    "query": LazyCommand("skyrocket.cli.messages.query:app", "Find messages by key, id, queue offset or time; show their trace."),
    "dlq": LazyCommand("skyrocket.cli.messages.dlq:app", "List, show, resend and export dead letters."),
    "offset": LazyCommand("skyrocket.cli.admin.offset:app", "Show, reset, skip and clone the offsets of consumer groups."),
    "cluster": LazyCommand("skyrocket.cli.admin.cluster:app", "Show brokers, their state and connected producers."),
    "config": LazyCommand("skyrocket.cli.admin.config:app", "Show and change settings of brokers and nameservers."),
    "acl": LazyCommand("skyrocket.cli.admin.acl:app", "Manage users and their rules, at brokers with access control."),
    "bench": LazyCommand(
        "skyrocket.cli.messages.bench:app",
        "Measure a cluster with a quick load: rate and latencies of sends, and of messages from send to consumer.",
    ),
    "profile": LazyCommand("skyrocket.cli.admin.profile:app", "List and show your profiles: named clusters for --cluster."),
    "console": LazyCommand(
        "skyrocket.cli.console.command:app", "Serve the web console of one cluster or several, ours or Apache's."
    ),
    "store": LazyCommand(
        "skyrocket.cli.files.store:app", "Verify, dump or repair a store directory, ours or Apache's. No broker is needed."
    ),
    "doctor": LazyCommand(
        "skyrocket.cli.doctor.command:app", "Say what is wrong with a cluster or a store directory: the evidence, and what to do."
    ),
    "pipeline": LazyCommand(
        "skyrocket.cli.pipeline_jobs.jobs:app",
        "Run jobs: archive, replay, table, audit, backlog, drain, dead letters, verify, and the sign-up demo.",
    ),
    "protocol": LazyCommand(
        "skyrocket.cli.files.protocol:app", "List the requests of RocketMQ's wire protocol, and decode captured frames."
    ),
    "completion": LazyCommand(
        "skyrocket.cli.completion:completion", "Print a script that completes commands and options in your shell."
    ),
}

app = typer.Typer(
    name="skyrocket",
    help="Apache RocketMQ in Python. Each part can replace Apache's.",
    cls=lazy_group(COMMANDS),
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
)


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    """Print an overview when no command is given."""
    if version:
        from skyrocket.protocol.versions import CURRENT, version_text  # noqa: PLC0415 — no other command of this module needs it

        typer.echo(f"{__version__} ({compiled.kind()}), RocketMQ {version_text(CURRENT)}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(overview())


def overview() -> str:
    """Return the text of `skyrocket` without a command: the parts, with an example of each."""
    return "\n".join(
        (
            f"skyrocket {__version__}: Apache RocketMQ in Python.",
            "",
            "Servers",
            "  skyrocket run                        a nameserver, a broker and a web console, for any RocketMQ client",
            "  skyrocket namesrv, skyrocket broker  one of them alone",
            "  skyrocket proxy -n host:port         one address in front of a cluster, ours or Apache's",
            "",
            "Clusters, ours or Apache's (-n host:port, or NAMESRV_ADDR)",
            "  skyrocket topic create orders --queues 8",
            "  skyrocket send orders --body hello --tag paid --key o-7",
            "  skyrocket consume orders --group coupons --from first",
            "  skyrocket query key orders o-7",
            "  skyrocket tail orders                follow a topic without a group",
            "  skyrocket group list, skyrocket offset reset coupons orders --to first, skyrocket cluster show",
            "  skyrocket console                    a web console on http://127.0.0.1:8082/",
            "  skyrocket doctor --group coupons     why does it receive nothing?",
            "  skyrocket dlq list, skyrocket config show BROKER, skyrocket bench, skyrocket profile list",
            "",
            "Files and frames",
            "  skyrocket store verify DIR           check a store directory for damage",
            "  skyrocket store dump DIR --json      print its messages",
            "  skyrocket store repair DIR           make its queues and index again from the log",
            "  skyrocket protocol decode HEX        decode a captured frame",
            "",
            "Jobs",
            "  skyrocket pipeline archive orders --to FOLDER",
            "  skyrocket pipeline replay --archive FOLDER --to orders-again",
            "  skyrocket pipeline backlog, skyrocket pipeline deadletters, skyrocket pipeline audit orders",
            "  skyrocket pipeline signup-demo --report signup.html",
            "",
            "Programs",
            "  skyrocket.client                     producers, consumers and administration from Python",
            '  skyrocket.spark                      Spark sources and sinks: spark.readStream.format("rocketmq")',
            "",
            "Not implemented yet: a proxy for gRPC clients. skyrocket --help lists all commands.",
        )
    )
