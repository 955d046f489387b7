"""The nodes of `skyrocket run --replicas N`: one broker, kept N times by a DLedger group on this machine.

    node    port              VIP port           port of the node    store
    n0      --port            --port - 2         --port + 3          DATA/group/n0
    n1      --port + 10       --port + 8         --port + 13         DATA/group/n1
    n2      --port + 20       --port + 18        --port + 23         DATA/group/n2

All nodes have the name of one broker: clients see its master, which is the node that leads. The nodes are all ours, so they take
the fast timings.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from skyrocket.cli.local_cluster.plan import PORTS_APART
from skyrocket.settings.errors import SettingsError

REPLICAS: Final = (3, 5, 7, 9)
GROUP_BROKER: Final = "broker-a"
NODE_PORT_ABOVE: Final = 3
_PORT_MAX: Final = 65_535
_OWN_KEYS: Final = {
    *("storePathRootDir", "storePathDLedgerCommitLog", "storePathConsumeQueue", "storePathIndex", "brokerConfigPath"),
    *("listenPort", "enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId", "namesrvAddr"),
}


class PlannedNode(NamedTuple):
    name: str  # of the node
    port: int
    store: Path
    peers: str

    @property
    def settings(self) -> dict[str, str]:
        """Its own settings, by their names in broker.conf."""
        return {
            "brokerName": GROUP_BROKER,
            "listenPort": str(self.port),
            "storePathRootDir": str(self.store),
            "enableDLegerCommitLog": "true",
            "dLegerPeers": self.peers,
            "dLegerSelfId": self.name,
        }

    @property
    def texts(self) -> list[str]:
        """Its own settings, each as key=value."""
        return [f"{key}={text}" for key, text in self.settings.items()]


def plan_replicas(count: int, data: Path, host: str, port: int) -> list[PlannedNode]:
    """Return the nodes of a group. Raise SettingsError when there cannot be such a group, or the directory has another one."""
    if count not in REPLICAS:
        raise SettingsError(
            f"--replicas {count} is not one of {REPLICAS}: an odd number, so that a majority is one more than half."
        )
    last = port + PORTS_APART * (count - 1) + NODE_PORT_ABOVE
    if port == 0 or last > _PORT_MAX:
        raise SettingsError(
            f"--port {port} leaves no ports for --replicas {count}. Choose one from 3 to {_PORT_MAX - last + port}."
        )
    if (data / "store").exists():
        raise SettingsError(
            f"{data} has the store of a broker without replicas, whose messages nobody would see. Choose another --data."
        )
    folder = data / "group"
    found = sorted(path.name for path in folder.glob("n[0-9]"))
    if found and len(found) != count:
        raise SettingsError(f"{folder} has a group of {len(found)} nodes. Start it with --replicas {len(found)}.")
    ports = [port + PORTS_APART * number for number in range(count)]
    shown = f"[{host}]" if ":" in host else host
    peers = ";".join(f"n{number}-{shown}:{one + NODE_PORT_ABOVE}" for number, one in enumerate(ports))
    return [PlannedNode(f"n{number}", one, folder / f"n{number}", peers) for number, one in enumerate(ports)]


def check_replica_settings(count: int, sets: Iterable[str]) -> None:
    """Raise SettingsError for a --set that cannot hold for all nodes."""
    for text in sets:
        key = text.partition("=")[0].strip()
        if key in _OWN_KEYS:
            raise SettingsError(f"--set {text} does not go with --replicas {count}, which sets {key} itself.")


def check_no_group(data: Path) -> None:
    """Raise SettingsError when the directory belongs to `--replicas`."""
    found = len(list((data / "group").glob("n[0-9]")))
    if found:
        raise SettingsError(f"{data} has a group of {found} nodes. Start it with --replicas {found}, or choose another --data.")
