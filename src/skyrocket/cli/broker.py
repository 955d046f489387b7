"""`skyrocket broker` runs a broker; `skyrocket run` runs a nameserver and a broker in one process, or brokers in many."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from skyrocket.broker.broker import VIP_PORT_BELOW, Broker
from skyrocket.broker.full_disk_start import run_broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.console import CONSOLE_PORT
from skyrocket.cli.console.beside_run import ConsoleBeside
from skyrocket.cli.exposure import check_exposure
from skyrocket.cli.local_cluster.plan import (
    PlannedBroker,
    check_count,
    check_shared_settings,
    check_stores,
    metrics_texts,
    plan_brokers,
)
from skyrocket.cli.local_cluster.replicas import (
    PlannedNode,
    check_no_group,
    check_replica_settings,
    plan_replicas,
)
from skyrocket.cli.local_cluster.supervisor import BrokerCommand, BrokerSupervisor
from skyrocket.cli.log_writer import LogFormat, LogOptions
from skyrocket.cli.nameserver_options import NAMESERVERS_VARIABLE, AddressServer, read_environment
from skyrocket.cli.server_command import (
    Insecure,
    LogFileFlag,
    LogFormatFlag,
    LogLevelFlag,
    ProcessFlags,
    serve,
    tell_start,
)
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings, apply_saved_changes
from skyrocket.net.descriptors import descriptor_limit
from skyrocket.net.local_address import is_wildcard
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.file import read_required_texts, read_texts

log = logging.getLogger(__name__)

Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, by its name in broker.conf. Repeat it for more."),
]


def broker(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="A file of settings, key=value, with Apache's keys.")
    ] = None,
    nameserver: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namesrv",
            help=f"Nameservers, host:port, separated by semicolons. Without it: namesrvAddr in FILE, or {NAMESERVERS_VARIABLE}.",
        ),
    ] = None,
    address_server: AddressServer = None,
    sets: Sets = None,
    insecure: Insecure = False,
    log_level: LogLevelFlag = None,
    log_format: LogFormatFlag = LogFormat.TEXT,
    log_file: LogFileFlag = None,
) -> None:
    """Run a broker. It stores messages and registers its topics with the nameservers."""

    async def main(stopped: asyncio.Event) -> None:
        settings = _read_settings(
            _default_nameservers(), config, {**_flag_texts(nameserver, address_server), **_level_text(log_level)}, sets
        )
        check_exposure(settings, insecure=insecure)
        tell_start(settings)

        def say_ready(served: Broker) -> None:
            now = served.settings()
            typer.echo(f"Broker {now.broker_name} is ready on {now.address}.{_explain_address(now)}")

        await run_broker(lambda only_reads: Broker(settings, only_reads=only_reads), stopped, say_ready)

    serve(main, LogOptions(log_format, log_file))


def run(
    data: Annotated[Path, typer.Option(help="The directory for messages and settings.")] = Path("skyrocket-data"),
    host: Annotated[
        str, typer.Option(help="The address to listen on. Without access control, anyone who can connect can use it.")
    ] = "127.0.0.1",
    namesrv_port: Annotated[int, typer.Option(help="The nameserver's port; 0 for any free port.")] = 9876,
    port: Annotated[
        int, typer.Option(help=f"The broker's port; 0 for any free port. The broker also uses this port - {VIP_PORT_BELOW}.")
    ] = 10911,
    brokers: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="How many brokers, to use more cores. Above 1, each runs in a process of its own, on --port, --port + 10 and so "
            "on, with its own store below --data, and is started again when it dies.",
        ),
    ] = 1,
    replicas: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="How many copies of every message. Above 1, a DLedger group of N nodes is the broker, each in a process of its "
            "own: a majority has each message before it is acknowledged, and elects the node that serves.",
        ),
    ] = 1,
    console: Annotated[
        bool, typer.Option(envvar="SKYROCKET_CONSOLE", help="Serve the web console, on this machine's loopback address alone.")
    ] = True,
    console_port: Annotated[int, typer.Option(min=0, max=65_535, help="The console's port; 0 for any free port.")] = CONSOLE_PORT,
    sets: Sets = None,
    insecure: Insecure = False,
    log_level: LogLevelFlag = None,
    log_format: LogFormatFlag = LogFormat.TEXT,
    log_file: LogFileFlag = None,
) -> None:
    """Run a nameserver and a broker, or --brokers N: a whole RocketMQ on one machine.

    With --brokers N, the N brokers of one cluster run in processes of their own. With --replicas N, N nodes keep one broker.
    """
    process = ProcessFlags(insecure=insecure, log_level=log_level, logs=LogOptions(log_format, log_file))
    options = RunOptions(data, host, namesrv_port, port, sets or [], console_port if console else None, process)
    if brokers == replicas == 1:
        _run_one(options)
    else:
        _run_cluster(_Wanted(brokers, replicas), options)


class RunOptions(NamedTuple):
    """What `skyrocket run` was told."""

    data: Path
    host: str
    namesrv_port: int
    port: int
    sets: list[str]
    console_port: int | None  # None: no console
    process: ProcessFlags


def _run_one(options: RunOptions) -> None:
    """Run a nameserver and a broker in this process."""
    started, (data, host, namesrv_port, port, sets, console_port, process) = time.monotonic(), options
    store = {"storePathRootDir": str(data / "store")}
    flags = {"bindAddress": host, "listenPort": str(port), **store, **_level_text(process.log_level)}

    async def main(stopped: asyncio.Event) -> None:
        check_stores(1, data)
        check_no_group(data)
        settings = _read_settings(BrokerSettings(), None, flags, sets)
        _check_ports(namesrv_port, settings.port)
        descriptors = descriptor_limit()
        names_settings = _nameserver_settings(settings, data, host, namesrv_port)
        check_exposure(settings, insecure=process.insecure)
        tell_start(settings)
        check_exposure(names_settings, insecure=process.insecure)
        names = Nameserver(names_settings, descriptors=descriptors // 4)
        await names.start()
        # Nothing to verify: the nameserver is in this process.
        in_process = {"namesrvAddr": _local_address(names, host), "tls.client.authServer": "false"}
        settings, descriptors = settings.with_texts(in_process), descriptors - descriptors // 4
        beside = ConsoleBeside(_local_address(names, host), console_port, settings, process)

        def say_ready(served: Broker) -> None:
            now = served.settings()
            typer.echo(
                _ready(
                    _seen_address(now, names, host),
                    f"broker {now.address}",
                    data,
                    time.monotonic() - started,
                    _explain_address(now),
                )
            )
            beside.start_soon()

        try:
            await run_broker(
                lambda only_reads: Broker(settings, descriptors=descriptors, only_reads=only_reads), stopped, say_ready
            )
        finally:
            await beside.close()
            await names.close()

    serve(main, process.logs)


class _Wanted(NamedTuple):
    brokers: int
    replicas: int

    def plan(self, data: Path, host: str, namesrv_port: int, port: int, sets: list[str]) -> Sequence[PlannedBroker | PlannedNode]:
        """Return what runs. Raise SettingsError when it cannot."""
        if self.replicas == 1:
            check_count(self.brokers)
            check_shared_settings(self.brokers, sets)
            check_no_group(data)
            return plan_brokers(self.brokers, data, port, namesrv_port)
        if self.brokers != 1:
            raise SettingsError("--brokers and --replicas do not go together on one machine. Give one of them.")
        check_replica_settings(self.replicas, sets)
        local = ("::1" if ":" in host else "127.0.0.1") if is_wildcard(host) else host
        return plan_replicas(self.replicas, data, local, port)

    @property
    def defaults(self) -> list[str]:
        return [] if self.replicas == 1 else ["dLedgerTimings=FAST"]


def _run_cluster(wanted: _Wanted, options: RunOptions) -> None:
    """Run a nameserver in this process, and each broker in its own."""
    started, (data, host, namesrv_port, port, sets, console_port, process) = time.monotonic(), options

    async def main(stopped: asyncio.Event) -> None:
        planned = wanted.plan(data, host, namesrv_port, port, sets)
        # This process reads the settings too: a mistake is then one sentence, before anything starts.
        settings = _read_settings(
            BrokerSettings(), None, {"bindAddress": host, **_level_text(process.log_level), **planned[0].settings}, sets
        )
        names_settings = _nameserver_settings(settings, data, host, namesrv_port)
        check_exposure(names_settings, insecure=process.insecure)
        if not process.insecure:  # the processes of the brokers warn
            check_exposure(settings, insecure=False)
        tell_start(names_settings)
        names = Nameserver(names_settings)
        await names.start()
        # Nothing to verify: the nameserver is this process.
        shared = [
            f"bindAddress={host}",
            *wanted.defaults,
            *sets,
            "tls.client.authServer=false",
            f"namesrvAddr={_local_address(names, host)}",
        ]
        commands = [
            BrokerCommand(
                one.name,
                [
                    "broker",
                    *process.arguments(one.name),
                    *_set_flags([*shared, *one.texts, *metrics_texts(settings.metrics_port, number)]),
                ],
                one.settings["brokerName"],
            )
            for number, one in enumerate(planned)
        ]
        supervisor = BrokerSupervisor(commands, typer.echo)
        beside = ConsoleBeside(_local_address(names, host), console_port, settings, process)
        try:
            starting = asyncio.ensure_future(supervisor.start())
            stopping = asyncio.ensure_future(stopped.wait())
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                served = ", ".join(f"{one.name} {one.address}" for one in supervisor.processes)
                seen = _seen_address(settings, names, host)
                typer.echo(_ready(seen, f"brokers {served}", data, time.monotonic() - started, _explain_address(settings)))
                beside.start_soon()
                await stopping
        finally:
            try:
                await beside.close()
                await supervisor.close()
            finally:
                await names.close()

    serve(main, process.logs)


def _set_flags(texts: list[str]) -> list[str]:
    return [part for text in texts for part in ("--set", text)]


# --- settings


def _default_nameservers() -> BrokerSettings:
    """Return default settings with the nameservers that the environment names. As at Apache's broker, a file overrides them."""
    nameservers, address_server = read_environment()
    try:
        return BrokerSettings().with_texts(_flag_texts(nameservers, address_server))
    except SettingsError as error:
        raise SettingsError(f"The environment variable {NAMESERVERS_VARIABLE} cannot be used: {error}") from error


def _flag_texts(nameservers: str | None, address_server: str | None) -> dict[str, str]:
    """Return the settings for --namesrv and --address-server. Each replaces what a file says about either."""
    if nameservers and address_server:
        raise SettingsError("Give either --namesrv or --address-server, not both.")
    if nameservers:
        return {"namesrvAddr": nameservers}
    if address_server:
        return {"namesrvAddr": "", "fetchNamesrvAddrByAddressServer": "true", "rmqAddressServerDomain": address_server}
    return {}


def _level_text(level: str | None) -> dict[str, str]:
    return {} if level is None else {"logLevel": level}


def _read_settings(
    settings: BrokerSettings, config: Path | None, flags: dict[str, str], sets: list[str] | None
) -> BrokerSettings:
    """Combine settings from the configuration file, the flags and --set, each of which overrides the ones before it.

    The broker saves changes at run time in the configuration file. Without one, it saves them in the store, and they are read
    from there.
    """
    given = {}
    for text in sets or []:
        key, separator, value = text.partition("=")
        if not separator:
            raise SettingsError(f"--set '{text}' is not key=value. Write it like this: --set flushDiskType=SYNC_FLUSH")
        given[key.strip()] = value
    in_file = {} if config is None else read_required_texts(config)
    _, warning = settings.separate_foreign({**in_file, **given})
    if warning is not None:
        log.warning("%s", warning)
    texts = {**flags, **settings.separate_foreign(given)[0]}
    if config is not None:
        kept = {**settings.separate_foreign(in_file)[0], "brokerConfigPath": str(config.absolute())}
    else:
        kept = read_texts(settings.with_texts(texts).changes_path) or {}
    return settings.with_texts({**kept, **texts})


def _nameserver_settings(broker: BrokerSettings, data: Path, host: str, port: int) -> NameserverSettings:
    """Return the settings of the nameserver beside the broker: the same limits and certificates, and its own files."""
    folder = data / "namesrv"
    places = {"kvConfigPath": str(folder / "kvConfig.json"), "configStorePath": str(folder / "namesrv.properties")}
    shared = replace(NameserverSettings(), **broker.shared_values())
    if broker.authentication_enabled and broker.inner_credentials is not None:
        inner = broker.inner_credentials
        shared = replace(shared, authentication_enabled=True, init_user=broker.init_user, inner_credentials=inner)
    return apply_saved_changes(shared.with_texts({"bindAddress": host, "listenPort": str(port), **places}))


def _check_ports(namesrv_port: int, port: int) -> None:
    if port > VIP_PORT_BELOW and namesrv_port == port - VIP_PORT_BELOW:
        raise SettingsError(
            f"--namesrv-port {namesrv_port} is the VIP port of --port {port}: the broker listens there too, because Apache's "
            f"clients use the port {VIP_PORT_BELOW} below the broker's. Choose another --namesrv-port or --port."
        )
    if port and namesrv_port == port:
        raise SettingsError(f"--namesrv-port and --port are both {port}. Choose two different ports.")


# --- what is printed


def _ready(nameserver: str, brokers: str, data: Path, seconds: float, explanation: str = "") -> str:
    places = f"nameserver {nameserver}, {brokers}, data in {data}"
    return "\n".join(
        (
            f"skyrocket is ready after {seconds:.2f} s: {places}.{explanation}",
            f"Use any RocketMQ client, or try: skyrocket topic list --namesrv {nameserver}",
            f"or: python examples/registration.py --namesrv {nameserver}    Stop it with Ctrl-C.",
        )
    )


def _explain_address(settings: BrokerSettings) -> str:
    if not is_wildcard(settings.host):
        return ""
    return (
        f" It listens on {settings.host}, and clients connect to {settings.advertised_host}; brokerIP1 chooses another address."
    )


def _seen_address(settings: BrokerSettings, names: Nameserver, host: str) -> str:
    """Return the nameserver's address for clients."""
    return _format_address(settings.advertised_host or settings.host, names.port) if is_wildcard(host) else names.address


def _local_address(names: Nameserver, host: str) -> str:
    """Return the nameserver's address for brokers on the same machine."""
    return _format_address("::1" if ":" in host else "127.0.0.1", names.port) if is_wildcard(host) else names.address


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
