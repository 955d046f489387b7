"""`skyrocket broker` runs a broker; `skyrocket run` runs a nameserver and a broker in one process."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from skyrocket.broker.broker import Broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.server_command import CANNOT_START, serve
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.file import read_required_texts, read_texts

Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, by its name in broker.conf. Repeat it for more."),
]


def broker(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="A file of settings, key=value, with Apache's keys.")
    ] = None,
    nameserver: Annotated[
        str | None, typer.Option("-n", "--namesrv", help="Nameservers, host:port, separated by semicolons.")
    ] = None,
    sets: Sets = None,
) -> None:
    """Run a broker. It stores messages and registers its topics with the nameservers."""
    settings = _settings(BrokerSettings(), config, {"namesrvAddr": nameserver} if nameserver else {}, sets)

    async def main(stopped: asyncio.Event) -> None:
        served = Broker(settings)
        try:
            await served.start()
            typer.echo(f"Broker {settings.broker_name} is ready on {served.settings().address}.")
            await served.run_until(stopped)
        finally:
            await served.close()

    serve(main)


def run(
    data: Annotated[Path, typer.Option(help="The directory for messages and settings.")] = Path("skyrocket-data"),
    host: Annotated[
        str, typer.Option(help="The address to listen on. There is no access control: anyone who can connect can use it.")
    ] = "127.0.0.1",
    namesrv_port: Annotated[int, typer.Option(help="The nameserver's port; 0 for any free port.")] = 9876,
    port: Annotated[int, typer.Option(help="The broker's port; 0 for any free port.")] = 10911,
    sets: Sets = None,
) -> None:
    """Run a nameserver and a broker in this process: a whole RocketMQ for development and tests."""
    started = time.monotonic()
    flags = {"bindAddress": host, "listenPort": str(port), "storePathRootDir": str(data / "store")}
    settings = _settings(BrokerSettings(), None, flags, sets)

    async def main(stopped: asyncio.Event) -> None:
        shared = replace(NameserverSettings(), **settings.shared_values())  # the same limits and certificates
        names = Nameserver(
            shared.with_texts(
                {"bindAddress": host, "listenPort": str(namesrv_port), "kvConfigPath": str(data / "namesrv" / "kvConfig.json")}
            )
        )
        await names.start()
        # Nothing to verify: the nameserver is in this process.
        served = Broker(settings.with_texts({"namesrvAddr": names.address, "tls.client.authServer": "false"}))
        try:
            await served.start()
            typer.echo(_ready(names.address, served.settings().address, data, time.monotonic() - started))
            await served.run_until(stopped)
        finally:
            try:
                await served.close()
            finally:
                await names.close()

    serve(main)


def _settings(settings: BrokerSettings, config: Path | None, flags: dict[str, str], sets: list[str] | None) -> BrokerSettings:
    """Combine settings from the configuration file, the flags and --set, each of which overrides the ones before it.

    The broker saves changes at run time in the configuration file. Without one, it saves them in the store, and they are read
    from there.
    """
    texts = dict(flags)
    try:
        for text in sets or []:
            key, separator, value = text.partition("=")
            if not separator:
                raise SettingsError(f"--set '{text}' is not key=value. Write it like this: --set flushDiskType=SYNC_FLUSH")
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
            f"Use any RocketMQ client, or try: skyrocket topic list --namesrv {nameserver}",
            f"or: python examples/registration.py --namesrv {nameserver}    Stop it with Ctrl-C.",
        )
    )
