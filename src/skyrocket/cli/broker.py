"""`skyrocket broker` and `skyrocket run`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from skyrocket.broker.broker import Broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.serving import CANNOT_START, serve
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.file import read_required_texts, read_texts

Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting, by the name it has in broker.conf.")
]


def broker(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="Settings: key=value, Apache's keys.")
    ] = None,
    nameserver: Annotated[str | None, typer.Option("-n", "--namesrv", help="Nameservers: host:port;host:port.")] = None,
    sets: Sets = None,
) -> None:
    """Run a broker. It stores messages, and tells the nameservers about its topics."""
    settings = _settings(BrokerSettings(), config, {"namesrvAddr": nameserver} if nameserver else {}, sets)

    async def main(stopped: asyncio.Event) -> None:
        served = Broker(settings)
        await served.start()
        typer.echo(f"Broker {settings.broker_name} is ready on {served.settings().address}.")
        await stopped.wait()
        await served.close()

    serve(main)


def run(
    data: Annotated[Path, typer.Option(help="Where messages and settings are kept.")] = Path("skyrocket-data"),
    host: Annotated[
        str, typer.Option(help="Where to listen. Anyone who can reach it can use it: there is no access control.")
    ] = "127.0.0.1",
    namesrv_port: Annotated[int, typer.Option(help="The nameserver's port; 0 lets the system choose.")] = 9876,
    port: Annotated[int, typer.Option(help="The broker's port; 0 lets the system choose.")] = 10911,
    sets: Sets = None,
) -> None:
    """Run a nameserver and a broker in this process: a whole RocketMQ for development and tests."""
    started = time.monotonic()
    flags = {"bindAddress": host, "listenPort": str(port), "storePathRootDir": str(data / "store")}
    settings = _settings(BrokerSettings(), None, flags, sets)

    async def main(stopped: asyncio.Event) -> None:
        names = Nameserver(
            NameserverSettings().with_texts(
                {"bindAddress": host, "listenPort": str(namesrv_port), "kvConfigPath": str(data / "namesrv" / "kvConfig.json")}
            )
        )
        await names.start()
        served = Broker(settings.with_texts({"namesrvAddr": names.address}))
        try:
            await served.start()
            typer.echo(_ready(names.address, served.settings().address, data, time.monotonic() - started))
            await stopped.wait()
        finally:
            await served.close()
            await names.close()

    serve(main)


def _settings(settings: BrokerSettings, config: Path | None, flags: dict[str, str], sets: list[str] | None) -> BrokerSettings:
    """A file, which is where changes at run time are kept, then flags, then --set; the later counts. Without a file, the changes
    that were kept in the store."""
    texts = dict(flags)
    try:
        for text in sets or []:
            key, separator, value = text.partition("=")
            if not separator:
                raise SettingsError(f"'{text}' is not key=value.")
            texts[key.strip()] = value
        if config is not None:
            kept = {**read_required_texts(config), "brokerConfigPath": str(config.absolute())}
        else:
            kept = read_texts(settings.with_texts(texts).changes_path) or {}
        return settings.with_texts(kept).with_texts(texts)
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT_START) from error


def _ready(nameserver: str, broker_address: str, data: Path, seconds: float) -> str:
    return "\n".join(
        (
            f"skyrocket is ready after {seconds:.2f} s: nameserver {nameserver}, broker {broker_address}, data in {data}.",
            f"Try it with any RocketMQ client, with: skyrocket topic list --namesrv {nameserver}",
            f"or with: python examples/registration.py --namesrv {nameserver}    Ctrl-C stops it.",
        )
    )
