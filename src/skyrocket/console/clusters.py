"""The clusters of a console, each with its own clients, its own sampler and its own turns, so that none disturbs another.

    one cluster        its pages begin at /
    several            those of cluster prod begin at /c/prod/, and / lists all clusters

A cluster that cannot be connected, because its certificate or its secret key is missing, has a sentence instead of pages. One
that does not answer has pages that say so; the others go on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote

from skyrocket.client import Admin, Producer
from skyrocket.client.options import ClientOptions
from skyrocket.console.errors import ConsoleError
from skyrocket.console.examinations import Examinations
from skyrocket.console.history import ClusterHistory
from skyrocket.console.lag_sweep import LagSweep
from skyrocket.console.limits import CLUSTERS_MAX, PAGES_AT_ONCE
from skyrocket.console.sampler import ClusterSampler
from skyrocket.console.visit import ClusterClients
from skyrocket.supervised_task import SupervisedTask

PRODUCER_GROUP: Final = "skyrocket-console"
_NAME: Final = re.compile(r"[A-Za-z0-9._:;\[\]-]{1,200}")  # what stands in an address without a slash or a space


class ConsoleCluster(NamedTuple):
    """A cluster to show: its name, how a command line reaches it, and how the console does."""

    name: str
    arguments: str  # such as -n '10.0.0.1:9876' or --cluster prod
    client: ClientOptions | None
    error: str = ""  # why it cannot be connected, without `client`


def name_cluster(client: ClientOptions) -> ConsoleCluster:
    """Return a cluster that is known by its nameservers alone."""
    where = ";".join(client.nameservers)
    arguments = f"-n '{where}'" if where else f"--address-server '{client.address_server}'"
    return ConsoleCluster(where or client.address_server, arguments, client)


@dataclass(frozen=True, slots=True)
class ServedCluster:
    """A cluster while the console serves it."""

    name: str
    base: str  # what the addresses of its pages begin with; empty for the only one
    arguments: str
    clients: ClusterClients | None
    error: str = ""
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PAGES_AT_ONCE))


def check_clusters(clusters: Sequence[ConsoleCluster]) -> None:
    """Raise ConsoleError when the clusters cannot be told apart, or not be named in an address."""
    names = [one.name for one in clusters]
    for name in names:
        if names.count(name) > 1:
            raise ConsoleError(f"Cluster '{name}' was given more than once.")
        if len(names) > 1 and not _NAME.fullmatch(name):
            raise ConsoleError(f"'{name}' cannot stand in an address. A cluster's name has letters, digits and . _ : ; -")
    if not 1 <= len(clusters) <= CLUSTERS_MAX:
        raise ConsoleError(f"A console shows 1 to {CLUSTERS_MAX} clusters, not {len(clusters)}.")
    if all(one.client is None for one in clusters):
        raise ConsoleError(" ".join(one.error for one in clusters))


async def open_clusters(clusters: Sequence[ConsoleCluster], stack: AsyncExitStack) -> list[ServedCluster]:
    """Start the clients of all clusters. Nothing is asked of the clusters yet."""
    served = []
    for one in clusters:
        base = "" if len(clusters) == 1 else f"/c/{quote(one.name, safe=':')}"
        clients = None if one.client is None else await _open_clients(one.client, stack)
        served.append(ServedCluster(one.name, base, one.arguments, clients, one.error))
    return served


async def _open_clients(options: ClientOptions, stack: AsyncExitStack) -> ClusterClients:
    admin = await stack.enter_async_context(Admin(options=options))
    producer = await stack.enter_async_context(Producer(options=options, group=PRODUCER_GROUP))
    history, lags, examinations = ClusterHistory(), LagSweep(admin), Examinations(admin)
    sampling = SupervisedTask("console sampler", ClusterSampler(admin, history).run)
    for background in (sampling, lags, examinations):
        stack.push_async_callback(background.close)
    return ClusterClients(admin, producer, history, lags, examinations)
