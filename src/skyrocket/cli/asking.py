"""What the commands that ask a cluster share: how to reach it, `--json`, and one sentence where something is wrong.

    @asks(app)
    async def create(reach: Reach, topic: Annotated[str, typer.Argument()]) -> Answer: ...

is a command `create TOPIC` with the options of `Reach` beside its own. What it returns is printed; what it raises becomes a
sentence on standard error and an exit code.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from skyrocket.cli.printing import Answer, as_json
from skyrocket.client import Admin, ClientError, Credentials
from skyrocket.client.admin import AdminOptions
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.protocol.errors import ProtocolError

FAILED: Final = 1  # the cluster did not do it
WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130

Job = TypeVar("Job", bound=Callable[..., Awaitable[Answer | None]])


@dataclass(frozen=True, slots=True)
class Reach:
    """A cluster, and in which form its answers are wanted."""

    nameservers: str
    options: AdminOptions
    as_json: bool

    def admin(self) -> Admin:
        return Admin(self.nameservers, **self.options)


_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "namesrv": (
        Annotated[
            str,
            typer.Option(
                "-n", "--namesrv", envvar="NAMESRV_ADDR", metavar="HOST:PORT", help="Nameservers; several with ; between."
            ),
        ],
        "127.0.0.1:9876",
    ),
    "namespace": (Annotated[str, typer.Option(help="Put before the names of topics and groups.", show_default=False)], ""),
    "tls": (Annotated[bool, typer.Option("--tls", help="Speak TLS.")], False),
    "access_key": (Annotated[str, typer.Option(envvar="ROCKETMQ_ACCESS_KEY", help="Sign requests.", show_default=False)], ""),
    "secret_key": (Annotated[str, typer.Option(envvar="ROCKETMQ_SECRET_KEY", show_default=False)], ""),
    "as_json": (Annotated[bool, typer.Option("--json", help="For programs.")], False),
}


def asks(app: typer.Typer, name: str | None = None) -> Callable[[Job], Job]:
    def register(job: Job) -> Job:
        _, *own = inspect.signature(job, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, (kind, default) in _OPTIONS.items()
        ]

        def command(**values: Any) -> None:
            reach = _reach(**{option: values.pop(option) for option in _OPTIONS})
            _carry_out(job, reach, values)

        command.__name__ = getattr(job, "__name__", "command")
        command.__doc__ = job.__doc__
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        command.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
        app.command(name)(command)
        return job

    return register


def _reach(*, namesrv: str, namespace: str, tls: bool, access_key: str, secret_key: str, as_json: bool) -> Reach:
    if bool(access_key) != bool(secret_key):
        refuse("--access-key and --secret-key belong together.")
    credentials = Credentials(access_key, secret_key) if access_key else None
    return Reach(namesrv, {"namespace": namespace, "tls": tls, "credentials": credentials}, as_json)


def _carry_out(job: Callable[..., Awaitable[Answer | None]], reach: Reach, values: dict[str, Any]) -> None:
    async def main() -> None:
        answer = await job(reach, **values)
        if answer is not None:
            typer.echo(as_json(answer.document) if reach.as_json else answer.text)

    try:
        asyncio.run(main())
    except BrokenPipeError:
        raise  # who read our output has had enough: typer ends quietly
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, ProtocolError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(WRONG_INPUT if isinstance(error, ValueError) else FAILED) from error
    except OSError as error:
        refuse(f"{error.filename or 'Standard input'} cannot be read: {error.strerror}.")


def refuse(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(WRONG_INPUT)


def pairs(texts: list[str] | None, what: str) -> dict[str, str]:
    """From name=value; what is not one is refused."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            refuse(f"{what} is name=value, not '{text}'.")
        found[name.strip()] = value
    return found


START_HELP: Final = "first, last, milliseconds since 1970, or a time such as 2026-11-15T06:51:57 (local unless it says its zone)."


def start_of(text: str) -> Start:
    """`first`, `last` or a moment."""
    if text == "first":
        return "first"
    if text == "last":
        return "last"
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        refuse(f"'{text}' is not {START_HELP}")
