"""What was acknowledged and what was delivered, and the rules between the two.

Lost: acknowledged and not delivered. Forbidden: delivered although it was rolled back. Stored twice: more copies than sends; a
message is sent once, so there is one at most. Repeated: one copy delivered twice, and no kill explains it. A kill explains that
what was handled shortly before it is delivered again, because its offset was not saved yet, and that what is handled shortly
after it goes to two members, because they do not agree yet on who has which queue. A broker that is killed just after it has
delivered a delayed message or committed a transaction, or cannot save that it has because its disk is full, may do so again: it
stores a second copy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from skyrocket.client import Queue, Receipt, Received
from tests.soak.clock import Clock, Disturbance

UNSAVED_S = 20.0  # offsets of a consumer are on disk after so long: its commits, the broker's saves, and a busy machine
REJOIN_S = 60.0  # after a kill, members agree on who has which queue after so long
SHOWN_MAX = 5  # examples of a problem


class Delivery(NamedTuple):
    at_s: float
    queue: Queue
    queue_offset: int


class Ledger:
    def __init__(self, name: str, clock: Clock, *, is_redelivered: bool = False) -> None:
        """`is_redelivered`: the broker itself stores these messages in their queue, and may do so again after a kill."""
        self.name = name
        self._is_redelivered = is_redelivered
        self._clock = clock
        self.acknowledged: dict[str, float] = {}  # id -> when
        self.receipts: dict[str, Receipt] = {}
        self.forbidden: set[str] = set()  # rolled back
        self.deliveries: dict[str, list[Delivery]] = defaultdict(list)
        self.errors: Counter[str] = Counter()

    def acknowledge(self, name: str, receipt: Receipt) -> None:
        if receipt.is_safe:
            self.acknowledged[name] = self._clock.now_s
            self.receipts[name] = receipt
        else:
            self.errors[receipt.status.name] += 1

    def fail(self, error: Exception) -> None:
        """Note that a send was not acknowledged. The message may be stored or not."""
        self.errors[type(error).__name__] += 1

    def deliver(self, name: str, message: Received) -> None:
        self.deliveries[name].append(Delivery(self._clock.now_s, message.queue, message.queue_offset))

    def lost(self) -> list[str]:
        return [name for name in self.acknowledged if name not in self.deliveries]

    def problems(self) -> list[str]:
        found = []
        if lost := self.lost():
            found.append(f"{len(lost)} acknowledged messages were lost: {self._show_sent(lost)}")
        if delivered := [name for name in self.forbidden if name in self.deliveries]:
            found.append(f"{len(delivered)} messages were delivered that were rolled back: {_show(delivered)}")
        if twice := self.stored_twice_without_reason():
            found.append(f"{len(twice)} messages were stored twice: {_show(twice)}")
        if repeated := self.repeated_without_reason():
            found.append(f"{len(repeated)} deliveries were repeated and no kill explains it: {_show(repeated)}")
        return [f"{self.name}: {each}" for each in found]

    def stored_twice_without_reason(self) -> list[str]:
        found = []
        for name, all_of in self.deliveries.items():
            first: dict[tuple[Queue, int], float] = {}
            for at_s, queue, offset in all_of:
                first.setdefault((queue, offset), at_s)
            (queue, offset), began_s = next(iter(first.items()))
            for (other, again), at_s in list(first.items())[1:]:
                if not (self._is_redelivered and self._is_explained(began_s, at_s, queue.broker_name, ("kill", "full"))):
                    found.append(
                        f"{name} at {began_s:.1f} s, {queue} offset {offset} and at {at_s:.1f} s, {other} offset {again}"
                    )
        return found

    def repeated_without_reason(self) -> list[str]:
        found = []
        for name, all_of in self.deliveries.items():
            first: dict[tuple[Queue, int], float] = {}
            for at_s, queue, offset in all_of:
                began_s = first.setdefault((queue, offset), at_s)
                if at_s != began_s and not self._is_explained(began_s, at_s):
                    found.append(f"{name} at {began_s:.1f} s and {at_s:.1f} s, {queue} offset {offset}")
        return found

    def _is_explained(
        self, first_s: float, again_s: float, server: str | None = None, kinds: tuple[str, ...] = ("kill",)
    ) -> bool:
        """Whether a disturbance of any server, or of this one, explains that what was handled first is handled again.

        Where one broker is gone, its queues are gone, and members divide the queues of the others anew.
        """
        reasons = [each for each in self._clock.disturbances if each.kind in kinds and server in (None, each.server)]
        return any(
            self._unsaved_since_s(each) <= first_s <= each.ended_s + REJOIN_S and each.began_s <= again_s for each in reasons
        )

    def _unsaved_since_s(self, kill: Disturbance) -> float:
        """Since when offsets may not have been saved at a kill: a full or slow disk keeps them from being saved."""
        since_s = kill.began_s - UNSAVED_S
        for each in sorted(self._clock.disturbances, key=lambda one: -one.ended_s):
            if each.server == kill.server and each.kind != "kill" and each.began_s <= kill.began_s and each.ended_s >= since_s:
                since_s = min(since_s, each.began_s - UNSAVED_S)
        return since_s

    def figures(self) -> dict[str, object]:
        delivered = sum(map(len, self.deliveries.values()))
        return {
            "acknowledged": len(self.acknowledged),
            "delivered": len(self.deliveries),
            "delivered again": delivered - len(self.deliveries),
            "not acknowledged": dict(self.errors),
        }

    def _show_sent(self, names: list[str]) -> str:
        return _show(
            f"{name} at {self.acknowledged[name]:.1f} s in {(receipt := self.receipts[name]).queue} offset {receipt.queue_offset}"
            for name in names
        )


def _show(texts: Iterable[str]) -> str:
    shown = list(texts)
    return "; ".join(shown[:SHOWN_MAX]) + ("; …" if len(shown) > SHOWN_MAX else "")
