"""Register commands that talk to a cluster, with the connection options, `--json` and error handling they all share.

    @cluster_command(app)
    async def create(options: CommandOptions, topic: Annotated[str, typer.Argument()]) -> CommandResult: ...

registers a command `create TOPIC`, which takes the shared options (`--namesrv`, `--tls`, …) beside its own. The shared code
prints the command's result, and turns an error into one sentence on standard error and an exit code.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from skyrocket.cli.confirmation import CONFIRMATION_OPTIONS, Confirmation
from skyrocket.cli.connection import (
    CONNECTION_OPTIONS,
    SEVERAL_CLUSTERS,
    ClusterConnection,
    ConnectionOptionError,
    NamedCluster,
    resolve_clusters,
    resolve_connection,
)
from skyrocket.cli.exit_codes import INTERRUPTED, WRONG_INPUT, exit_code_of
from skyrocket.cli.names import suggest_name
from skyrocket.cli.output import CommandResult, to_json
from skyrocket.cli.profiles import ProfileError
from skyrocket.client import Admin, ClientError, NoRouteError, NotFoundError
from skyrocket.client.admin import AdminOptions
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.pipelines.errors import ArgumentError, PipelineError
from skyrocket.protocol.errors import ProtocolError

Job = TypeVar("Job", bound=Callable[..., Awaitable[CommandResult | None]])


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """How to connect to a cluster, and whether to print results as JSON."""

    nameservers: str | None  # None: those that an address server lists
    client_options: AdminOptions
    as_json: bool
    confirmation: Confirmation = field(default_factory=Confirmation)  # of a command that destroys something
    clusters: Sequence[NamedCluster] = ()  # of a command that takes several

    @property
    def namespace(self) -> str:
        return self.client_options.get("namespace", "")

    def admin(self) -> Admin:
        return Admin(self.nameservers, **self.client_options)


_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    **CONNECTION_OPTIONS,
    "as_json": (Annotated[bool, typer.Option("--json", help="Print one JSON document.")], False),
}


def cluster_command(
    app: typer.Typer,
    name: str | None = None,
    *,
    destroys: bool = False,
    several: bool = False,
    more: Mapping[str, tuple[Any, Any]] | None = None,
) -> Callable[[Job], Job]:
    """Register the decorated coroutine function as a command of `app`, with the shared options added to its own.

    A command for `several` clusters finds them in `options.clusters`. One that `destroys` something also takes
    --yes and --dry-run. It asks `options.confirmation` before it does so.
    `more` has options that several commands share, name -> (annotation, default). The function takes them as `**keywords`.
    """
    options = {**_OPTIONS, **(SEVERAL_CLUSTERS if several else {}), **(CONFIRMATION_OPTIONS if destroys else {})}
    parse = _parse_several if several else _parse_options
    more = more or {}

    def register(job: Job) -> Job:
        _, *own = inspect.signature(job, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, (kind, default) in {**more, **options}.items()
        ]

        def command(**values: Any) -> None:
            parsed = parse(**{option: values.pop(option) for option in options})
            _run_job(job, parsed, values)

        command.__name__ = getattr(job, "__name__", "command")
        command.__doc__ = job.__doc__
        named = [parameter for parameter in own if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in named]
        command.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
        app.command(name)(command)
        return job

    return register


def _parse_options(*, as_json: bool, yes: bool = False, dry_run: bool = False, **connection: Any) -> CommandOptions:
    found = connect_or_refuse(**connection)
    try:
        return CommandOptions(found.nameservers, found.client_options(), as_json, Confirmation(yes, dry_run))
    except ConnectionOptionError as error:
        refuse(str(error))


def _parse_several(*, as_json: bool, **connection: Any) -> CommandOptions:
    try:
        return CommandOptions(None, {}, as_json, clusters=resolve_clusters(**connection))
    except (ConnectionOptionError, ProfileError) as error:
        refuse(str(error))


def connect_or_refuse(**values: Any) -> ClusterConnection:
    """Return the cluster that the shared options name. Exit with a sentence when they name none."""
    try:
        return resolve_connection(**values)
    except (ConnectionOptionError, ProfileError) as error:
        refuse(str(error))


def _run_job(job: Callable[..., Awaitable[CommandResult | None]], options: CommandOptions, values: dict[str, Any]) -> None:
    async def main() -> int:
        try:
            result = await job(options, **values)
        except (NoRouteError, NotFoundError, ArgumentError) as error:
            typer.echo(await suggest_name(options.admin(), values, str(error)), err=True)
            return exit_code_of(error)
        if result is None:
            return 0
        typer.echo(to_json(result.document) if options.as_json else result.text)
        return result.exit_code

    try:
        code = asyncio.run(main())
    except BrokenPipeError:
        raise  # the reader closed the pipe: typer exits without a message
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, ProtocolError, PipelineError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(exit_code_of(error)) from error
    except OSError as error:
        refuse(f"{error.filename or 'Standard input'} cannot be read: {error.strerror}.")
    if code:
        raise typer.Exit(code)


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


TIME_HELP: Final = "milliseconds since 1970, or a time such as 2026-11-15T06:51:57 (local unless it has a zone)"


def parse_time_ms(text: str, option: str) -> int:
    """Parse a time as TIME_HELP says. Exit with an error that begins with the option for any other text."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        refuse(f"{option} is '{text}', which is not a time. Use {TIME_HELP}.")
