"""`skyrocket proxy`: run a proxy in front of a cluster until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from skyrocket.cli.connection import ConnectionOptionError, resolve_connection
from skyrocket.cli.log_writer import LogFormat, LogOptions
from skyrocket.cli.nameserver_options import Namesrv
from skyrocket.cli.profiles import ProfileError, complete_profile
from skyrocket.cli.server_command import Insecure, LogFileFlag, LogFormatFlag, LogLevelFlag, serve, tell_start
from skyrocket.net.local_address import is_loopback
from skyrocket.proxy.proxy import Proxy
from skyrocket.proxy.settings import ProxySettings, read_settings
from skyrocket.settings.errors import SettingsError

log = logging.getLogger(__name__)


def proxy(
    config: Annotated[Path | None, typer.Option("-c", "--config", metavar="FILE", help="A file of settings, key=value.")] = None,
    namesrv: Namesrv = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="A cluster of your profiles, with its TLS.", autocompletion=complete_profile),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect to nameservers and brokers with TLS.")] = False,
    host: Annotated[str | None, typer.Option(help="The address to listen on (bindAddress); 127.0.0.1 by default.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on (remotingListenPort); 8080 by default, 0 for any free port.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST", help="The host that clients connect to (advertisedHost), if it is another one.")
    ] = None,
    broker_port: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PORT",
            help="A port for one broker (brokerPorts): for clients of RocketMQ 4 and for tools. NAME:1 is its slave. Repeat it.",
        ),
    ] = None,
    insecure: Insecure = False,
    log_level: LogLevelFlag = None,
    log_format: LogFormatFlag = LogFormat.TEXT,
    log_file: LogFileFlag = None,
) -> None:
    """Run a proxy: one address in front of a cluster whose brokers clients cannot reach. The cluster is ours or Apache's."""
    flags = {
        "bindAddress": host,
        "remotingListenPort": None if port is None else str(port),
        "advertisedHost": advertise,
        "brokerPorts": ";".join(broker_port) if broker_port else None,
        "logLevel": log_level,
    }

    async def main(stopped: asyncio.Event) -> None:
        settings = ProxySettings() if config is None else read_settings(config)
        given = {**flags, **_cluster_texts(namesrv, cluster, tls=tls, is_configured=config is not None)}
        settings = settings.with_texts({key: text for key, text in given.items() if text is not None})
        _check_exposure(settings, insecure=insecure)
        tell_start(settings)
        running = Proxy(settings)
        await running.start()
        typer.echo(f"The proxy is ready on {running.address}. Clients use it as their nameserver.")
        for (name, number), own in running.broker_ports.items():
            typer.echo(f"Broker {name} with id {number} is on {settings.visible_host}:{own}.")
        await stopped.wait()
        await running.close()

    serve(main, LogOptions(log_format, log_file))


def _cluster_texts(namesrv: str | None, cluster: str | None, *, tls: bool, is_configured: bool) -> dict[str, str]:
    """Return the settings of the cluster that the options name. Without such an option, a file of settings names it."""
    texts = {"tls.enable": "true"} if tls else {}
    if is_configured and namesrv is None and cluster is None:
        return texts
    try:
        found = resolve_connection(namesrv=namesrv, cluster=cluster, tls=tls)
    except (ConnectionOptionError, ProfileError) as error:
        raise SettingsError(str(error)) from error
    if found.nameservers is None:
        raise SettingsError("The proxy asks no address server. Give the nameservers with -n HOST:PORT.")
    files = {
        "tls.client.trustCertPath": found.tls_ca_file,
        "tls.client.certPath": found.tls_cert_file,
        "tls.client.keyPath": found.tls_key_file,
    }
    given = {key: file for key, file in files.items() if file}
    if found.tls or given:
        texts["tls.enable"] = "true"
    return {**texts, **given, "namesrvAddr": found.nameservers}


def _check_exposure(settings: ProxySettings, *, insecure: bool) -> None:
    """Raise SettingsError when strangers could reach the brokers through the proxy; with `insecure`, warn instead."""
    if is_loopback(settings.bind_address) or settings.requires_certificates:
        return
    danger = f"The proxy listens on {settings.bind_address} and checks nobody: who connects reaches the brokers behind it."
    if not insecure:
        raise SettingsError(
            f"{danger} Set tls.server.need.client.auth=require, or, if the brokers have access control, give --insecure."
        )
    log.warning("%s It was started with --insecure.", danger)
