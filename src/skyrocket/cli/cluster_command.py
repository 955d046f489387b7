"""Register commands that talk to a cluster, with the connection options, `--json` and error handling they all share.

    @cluster_command(app)
    async def create(options: CommandOptions, topic: Annotated[str, typer.Argument()]) -> CommandResult: ...

registers a command `create TOPIC`, which takes the shared options (`--namesrv`, `--tls`, …) beside its own. The shared code
prints the command's result, and turns an error into one sentence on standard error and an exit code.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from skyrocket.cli.nameserver_options import DEFAULT_NAMESERVER, AddressServer, Namesrv, read_environment
from skyrocket.cli.output import CommandResult, to_json
from skyrocket.client import Admin, ClientError, Credentials, NotFoundError
from skyrocket.client.admin import AdminOptions
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.protocol.errors import ProtocolError

FAILED: Final = 1  # the cluster could not be reached, or refused the request
WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130

Job = TypeVar("Job", bound=Callable[..., Awaitable[CommandResult | None]])


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """How to connect to a cluster, and whether to print results as JSON."""

    nameservers: str | None  # None: those that an address server lists
    client_options: AdminOptions
    as_json: bool

    def admin(self) -> Admin:
        return Admin(self.nameservers, **self.client_options)


_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "namesrv": (Namesrv, None),
    "address_server": (AddressServer, None),
    "namespace": (
        Annotated[str, typer.Option(help="The namespace, which prefixes the names of topics and groups.", show_default=False)],
        "",
    ),
    "tls": (Annotated[bool, typer.Option("--tls", help="Connect with TLS.")], False),
    "access_key": (
        Annotated[
            str, typer.Option(envvar="ROCKETMQ_ACCESS_KEY", help="The access key that signs requests.", show_default=False)
        ],
        "",
    ),
    "secret_key": (
        Annotated[
            str,
            typer.Option(envvar="ROCKETMQ_SECRET_KEY", help="The secret key that goes with the access key.", show_default=False),
        ],
        "",
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print one JSON document.")], False),
}


def cluster_command(app: typer.Typer, name: str | None = None) -> Callable[[Job], Job]:
    """Register the decorated coroutine function as a command of `app`, with the shared options added to its own."""

    def register(job: Job) -> Job:
        _, *own = inspect.signature(job, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, (kind, default) in _OPTIONS.items()
        ]

        def command(**values: Any) -> None:
            options = _parse_options(**{option: values.pop(option) for option in _OPTIONS})
            _run_job(job, options, values)

        command.__name__ = getattr(job, "__name__", "command")
        command.__doc__ = job.__doc__
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        command.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
        app.command(name)(command)
        return job

    return register


def _parse_options(
    *,
    namesrv: str | None,
    address_server: str | None,
    namespace: str,
    tls: bool,
    access_key: str,
    secret_key: str,
    as_json: bool,
) -> CommandOptions:
    if bool(access_key) != bool(secret_key):
        missing = "--secret-key" if access_key else "--access-key"
        refuse(f"{missing} is missing. Give --access-key and --secret-key together, or neither.")
    credentials = Credentials(access_key, secret_key) if access_key else None
    if namesrv and address_server:
        refuse("Give either --namesrv or --address-server, not both.")
    if not namesrv and not address_server:
        namesrv, address_server = read_environment()
    client_options: AdminOptions = {
        "namespace": namespace,
        "tls": tls,
        "credentials": credentials,
        "address_server": address_server or "",
    }
    return CommandOptions(namesrv or (None if address_server else DEFAULT_NAMESERVER), client_options, as_json)


def _run_job(job: Callable[..., Awaitable[CommandResult | None]], options: CommandOptions, values: dict[str, Any]) -> None:
    async def main() -> None:
        result = await job(options, **values)
        if result is not None:
            typer.echo(to_json(result.document) if options.as_json else result.text)

    try:
        asyncio.run(main())
    except BrokenPipeError:
        raise  # the reader closed the pipe: typer exits without a message
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, ProtocolError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(WRONG_INPUT if isinstance(error, ValueError) else FAILED) from error
    except OSError as error:
        refuse(f"{error.filename or 'Standard input'} cannot be read: {error.strerror}.")


def refuse(sentence: str) -> NoReturn:
    """Print the sentence to standard error and exit with `WRONG_INPUT`."""
    typer.echo(sentence, err=True)
    raise typer.Exit(WRONG_INPUT)


async def require_group(admin: Admin, group: str) -> None:
    """Raise NotFoundError unless a broker has the group, or offsets of it: a deleted group may have left some."""
    try:
        await admin.groups.get(group)
    except NotFoundError:
        if not await admin.groups.topics(group):
            raise


async def choose_broker(admin: Admin, topic: str, broker: str | None) -> str:
    """Return the broker that --broker names, or the only one that has the topic."""
    brokers = [one.broker_name for one in (await admin.topics.route(topic)).brokers]
    if broker is None and len(brokers) > 1:
        refuse(f"Several brokers have topic '{topic}'. Choose one with --broker: {', '.join(brokers)}.")
    if broker is not None and broker not in brokers:
        raise NotFoundError(f"Broker '{broker}' does not have topic '{topic}'. The topic is at: {', '.join(brokers)}.")
    return broker or brokers[0]


def parse_pairs(texts: list[str] | None, what: str) -> dict[str, str]:
    """Parse texts of the form name=value. Exit with an error that begins with `what` for any other text."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            refuse(f"{what} is name=value, not '{text}'.")
        found[name.strip()] = value
    return found


START_HELP: Final = "first, last, milliseconds since 1970, or a time such as 2026-11-15T06:51:57 (local unless it has a zone)."


def parse_start(text: str) -> Start:
    """Parse a start position: `first`, `last`, milliseconds since 1970 or an ISO 8601 time."""
    if text == "first":
        return "first"
    if text == "last":
        return "last"
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        refuse(f"'{text}' is not a start position. Use {START_HELP}")
