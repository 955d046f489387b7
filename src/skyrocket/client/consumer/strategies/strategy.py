"""What a rebalance strategy is: every member of a group computes its own share of a topic's queues, and all must agree.

Nobody hands the shares out. Each member sorts the same queues and the same members, asks the same strategy, and takes what the
answer says is its own; so a strategy is a pure function, and a Python member gets along with Java members only when its answer
is theirs. The answers equal those of Apache's classes 5.5.0 for any input, also an odd one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue, java_order, queue_order


class RebalanceError(ClientError):
    """A strategy cannot say what is whose."""


class Strategy(Protocol):
    @property
    def name(self) -> str:
        """Java's name for it; brokers and tools show it."""
        ...

    def allocate(self, group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        """Those of `queues` that are for `client_id`. Queues and members come sorted, each once."""
        ...


def share(strategy: Strategy, group: str, client_id: str, queues: Iterable[Queue], client_ids: Iterable[str]) -> list[Queue]:
    """What `client_id` is to consume, whatever order queues and members are known in."""
    return strategy.allocate(group, client_id, sorted(queues, key=queue_order), sorted(client_ids, key=java_order))


def is_member(client_id: str, queues: Sequence[Queue], client_ids: Sequence[str]) -> bool:
    """What all strategies but one check first. Who is not in the list (the broker has not heard it yet) gets nothing."""
    if not client_id:
        raise RebalanceError("A rebalance needs the id of the client that asks; it is empty.")
    if not queues:
        raise RebalanceError("A rebalance needs queues to share; there are none.")
    if not client_ids:
        raise RebalanceError("A rebalance needs the group's members; there are none.")
    return client_id in client_ids
