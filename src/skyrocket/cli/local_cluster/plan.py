"""The brokers of `skyrocket run --brokers N`: their names, ports and stores.

    broker      port              VIP port           store
    broker-a    --port            --port - 2         DATA/store
    broker-b    --port + 10       --port + 8         DATA/store-b
    broker-c    --port + 20       --port + 18        DATA/store-c

The first broker has the port and the store of `skyrocket run` alone, so a cluster can grow: its messages stay where they are. A
cluster cannot shrink by itself, because nobody would see the messages in the stores that are left.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase
from typing import Final, NamedTuple

from skyrocket.broker.broker import VIP_PORT_BELOW
from skyrocket.settings.errors import SettingsError

BROKERS_MAX: Final = len(ascii_lowercase)
PORTS_APART: Final = 10
_PORT_MAX: Final = 65_535
_PATH_KEYS: Final = {"storePathRootDir", "storePathCommitLog", "storePathConsumeQueue", "storePathIndex", "brokerConfigPath"}
_OWN_KEYS: Final = _PATH_KEYS | {"brokerName", "listenPort"}


class PlannedBroker(NamedTuple):
    name: str
    port: int  # 0: the system chooses one
    store: Path

    @property
    def settings(self) -> dict[str, str]:
        """Its own settings, by their names in broker.conf."""
        return {"brokerName": self.name, "listenPort": str(self.port), "storePathRootDir": str(self.store)}

    @property
    def texts(self) -> list[str]:
        """Its own settings, each as key=value."""
        return [f"{key}={text}" for key, text in self.settings.items()]


def check_count(count: int) -> None:
    if not 1 <= count <= BROKERS_MAX:
        raise SettingsError(
            f"--brokers {count} is not between 1 and {BROKERS_MAX}. More brokers than cores make a machine no faster."
        )


def plan_brokers(count: int, data: Path, port: int, namesrv_port: int) -> list[PlannedBroker]:
    """Return the brokers of a cluster. Raise SettingsError when their ports or stores do not fit."""
    check_count(count)
    planned = [
        PlannedBroker(f"broker-{letter}", port and port + PORTS_APART * number, _store(data, letter))
        for number, letter in enumerate(ascii_lowercase[:count])
    ]
    _check_ports(planned, namesrv_port)
    check_stores(count, data)
    return planned


def metrics_texts(port: int, number: int) -> list[str]:
    """Return the setting for the metrics of a broker, as key=value: their ports are as far apart as those of the brokers."""
    return [f"metricsPromExporterPort={port and port + PORTS_APART * number}"]


def _store(data: Path, letter: str) -> Path:
    return data / ("store" if letter == "a" else f"store-{letter}")


def _check_ports(planned: list[PlannedBroker], namesrv_port: int) -> None:
    last = planned[-1]
    if last.port > _PORT_MAX:
        raise SettingsError(
            f"--port {planned[0].port} leaves no port for {last.name}: {last.port} is above {_PORT_MAX}. Choose a lower --port."
        )
    for broker in planned:
        if namesrv_port and namesrv_port in (broker.port, broker.port - VIP_PORT_BELOW):
            raise SettingsError(
                f"--namesrv-port {namesrv_port} is a port of {broker.name}, which listens on {broker.port} and "
                f"{broker.port - VIP_PORT_BELOW}. Choose another --namesrv-port or --port."
            )


def check_stores(count: int, data: Path) -> None:
    """Raise SettingsError when the directory has stores of more brokers than are to run."""
    found = [number for number, letter in enumerate(ascii_lowercase, 1) if number > 1 and _store(data, letter).exists()]
    needed = max(found, default=1)
    if needed > count:
        last = _store(data, ascii_lowercase[needed - 1]).name
        raise SettingsError(
            f"{data} has the stores of {needed} brokers, and --brokers {count} would leave the messages in {last} unread. "
            f"Start it with --brokers {needed}, or move {last} away."
        )


def check_shared_settings(count: int, sets: Iterable[str]) -> None:
    """Raise SettingsError for a --set that cannot hold for all brokers."""
    for text in sets:
        key = text.partition("=")[0].strip()
        if key == "namesrvAddr":
            raise SettingsError(
                f"--set {text} does not go with skyrocket run, which has its own nameserver. Use: skyrocket broker"
            )
        if key in _OWN_KEYS:
            raise SettingsError(f"--set {text} cannot hold for all of --brokers {count}: each broker has its own {key}.")
