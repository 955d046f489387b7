"""`skyrocket console`: serve the web console of one cluster or several until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command, refuse
from skyrocket.cli.connection import ConnectionOptionError, NamedCluster
from skyrocket.cli.console import CONSOLE_PORT
from skyrocket.cli.log_writer import LogFormat, LogOptions
from skyrocket.cli.output import to_json
from skyrocket.client import ClientOptions, ConfigurationError
from skyrocket.console.clusters import ConsoleCluster
from skyrocket.console.errors import ConsoleError
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, format_user, hash_password, is_user_name
from skyrocket.settings.errors import SettingsError

app = typer.Typer(add_completion=False)
_MISSING: Final = "The console needs libraries that are not installed. Install them with: pip install 'skyrocketmq[console]'"


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


# As those of servers, whose module would load the broker.
LogLevelFlag = Annotated[LogLevel, typer.Option(case_sensitive=False, help="Lines from this level on.")]
LogFormatFlag = Annotated[LogFormat, typer.Option(help="Lines for people, or one JSON document a line.")]
LogFileFlag = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Log to a file, rotated at 64 MiB; standard error by default.")
]


@cluster_command(app, "console", several=True)
async def console(
    options: CommandOptions,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Beyond loopback, --users says who may log in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any free port.")] = CONSOLE_PORT,
    users: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The people who may log in: a line name:role:hash for each.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name under which browsers may ask for the console. Repeat it for more."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Serve HTTPS with this certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Browsers must show a certificate that this authority signed (PEM).")
    ] = None,
    log_level: LogLevelFlag = LogLevel.INFO,
    log_format: LogFormatFlag = LogFormat.TEXT,
    log_file: LogFileFlag = None,
    hash_password_: Annotated[
        bool, typer.Option("--hash-password", help="Ask for a name, a role and a password, print the line for --users, and exit.")
    ] = False,
) -> None:
    """Serve the web console of one cluster or several, ours or Apache's. Repeat --cluster or --namesrv for more clusters."""
    if hash_password_:
        _print_user()
        return
    try:
        from skyrocket.console.server import ConsoleOptions, ConsoleServer  # noqa: PLC0415 — its libraries are an extra
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "skyrocket":
            raise
        refuse(_MISSING)
    chosen = ConsoleOptions(
        clusters=tuple(map(_console_cluster, options.clusters)),
        host=host,
        port=port,
        users=users,
        allowed_hosts=tuple(allow_host or ()),
        certificate=tls_cert,
        key=tls_key,
        client_ca=tls_client_ca,
    )
    try:
        LogOptions(log_format, log_file).start(logging.INFO)
    except SettingsError as error:
        refuse(str(error))
    logging.getLogger("skyrocket").setLevel(log_level.value)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        async with ConsoleServer(chosen) as server:
            names = [one.name for one in options.clusters]
            told = {"console": server.url, "clusters": names}
            typer.echo(to_json(told) if options.as_json else f"The console of {', '.join(names)} is at {server.url}")
            await stopped.wait()
    except ConsoleError as error:
        refuse(str(error))


def _console_cluster(named: NamedCluster) -> ConsoleCluster:
    """Return a cluster for the console. One that cannot be connected has a sentence, which the console shows."""
    found = named.connection
    if found is None:
        return ConsoleCluster(named.name, named.arguments, None, named.error)
    try:
        given = found.client_options()
        client = ClientOptions(
            found.nameservers,
            namespace=given["namespace"],
            address_server=given["address_server"],
            tls=given["tls"],
            credentials=given["credentials"],
        )
    except (ConnectionOptionError, ConfigurationError) as error:
        return ConsoleCluster(named.name, named.arguments, None, str(error))
    return ConsoleCluster(named.name, named.arguments, client)


def _print_user() -> None:
    name = typer.prompt("Name", err=True)
    if not is_user_name(name):
        refuse("A name has up to 64 letters, digits and the characters . _ @ and -.")
    role = typer.prompt("Role (viewer or operator)", default="viewer", err=True).upper()
    if role not in ConsoleRole.__members__:
        refuse("A role is viewer or operator.")
    password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    try:
        user = ConsoleUser(name, ConsoleRole[role], hash_password(password, secrets.token_bytes(16)))
    except ConsoleError as error:
        refuse(str(error))
    typer.echo(format_user(user))
