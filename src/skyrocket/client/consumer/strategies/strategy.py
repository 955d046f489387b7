"""The interface of a rebalance strategy: each member of a group computes its own share of a topic's queues.

There is no coordinator. Each member sorts the same queues and the same members, runs the same strategy and takes its own share.
So a strategy must be a pure function, and a Python member can share a group with Java members only if both compute the same. The
strategies here return what Apache's classes of version 5.5.0 return, for any input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue, java_order, queue_order


class RebalanceError(ClientError):
    """A strategy cannot allocate queues."""


class Strategy(Protocol):
    """A rebalance strategy."""

    @property
    def name(self) -> str:
        """Java's name of the strategy; brokers and tools show it."""
        ...

    def allocate(self, group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        """Return the queues for `client_id`. `queues` and `client_ids` are sorted and without duplicates."""
        ...


def allocate_queues(
    strategy: Strategy, group: str, client_id: str, queues: Iterable[Queue], client_ids: Iterable[str]
) -> list[Queue]:
    """Return the queues that `client_id` consumes. `queues` and `client_ids` may come in any order."""
    return strategy.allocate(group, client_id, sorted(queues, key=queue_order), sorted(client_ids, key=java_order))


def is_member(client_id: str, queues: Sequence[Queue], client_ids: Sequence[str]) -> bool:
    """Check the arguments of `allocate`, and return whether `client_id` is a member. A non-member gets no queues.

    A client is not a member until the broker has its first heartbeat. Raises RebalanceError if an argument is empty.
    """
    if not client_id:
        raise RebalanceError("A rebalance needs the id of this client, but it is empty.")
    if not queues:
        raise RebalanceError("A rebalance needs queues to allocate, but there are none.")
    if not client_ids:
        raise RebalanceError("A rebalance needs the members of the group, but there are none.")
    return client_id in client_ids
