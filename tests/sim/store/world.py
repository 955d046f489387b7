"""A simulated group whose nodes have the broker's store, flusher and driver; from one seed, as in `tests/sim/world.py`."""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Any

from skyrocket.protocol.bodies.dledger import DLedgerEntry
from tests.sim.invariants import Checker, ViolationError
from tests.sim.store.node import TOPIC, StoreNode, message_of
from tests.sim.store.plan import StorePlan
from tests.sim.world import QUEUES, World, replayable

RESTART_MS = 100
SEED_VARIABLE = "SKYROCKET_SIM_STORE_SEED"


class StoreWorld(World):
    plan: StorePlan

    def __init__(self, seed: int, plan: StorePlan | None = None, *, trace: bool = False) -> None:
        super().__init__(seed, plan or StorePlan(seed), trace=trace)
        self._failing: set[str] = set()
        self.came_back = 0  # nodes whose disk was full, without a start

    def make_checker(self) -> Checker:
        return Checker(strict=True, message_of=message_of)

    def make_node(self, name: str, *, loose: bool) -> StoreNode:
        return StoreNode(self, name, loose=loose)

    def logs(self) -> dict[str, Sequence[DLedgerEntry]]:
        return {name: list(node.log) for name, node in self.nodes.items() if node.is_up}

    def make_sound(self) -> None:
        for node in self.nodes.values():
            node.make_sound()

    # Faults -----------------------------------------------------------------------------------------------------------

    def apply(self, name: str, node: Any, leader: Any) -> None:
        rng = self.rng
        if not node.is_up or node.is_stopping:
            super().apply(name, node, leader)
            return
        match name:
            case "power cut while writing" if not node.loose:
                node.disk.cut_power_at(rng.randint(1, 20))
            case "kill while writing":
                node.kills_when_off = True
                node.disk.cut_power_at(rng.randint(1, 20))
            case "freeze":
                node.loop.freeze(self.now + rng.choice([60, 300, 1_000]))
            case "stop":
                node.stop()
            case "sync fails" if not node.loose:
                self.expect_failure(node)
                node.disk.fail("sync", rng.randint(1, 4), lasting=rng.random() < 0.5)
            case "write fails" if not node.loose:
                self.expect_failure(node)
                node.disk.fail("write", rng.randint(1, 8), rng.choice([errno.EIO, errno.ENOSPC]), short=rng.random() < 0.5)
            case _:
                super().apply(name, node, leader)

    def expect_failure(self, node: StoreNode) -> None:
        """A node's disk is about to fail: it may stop until it is started again."""
        self._failing.add(node.name)

    def crash(self, node: Any, *, power: bool) -> None:
        super().crash(node, power=power)
        self._failing.discard(node.name)  # the disk works again

    def on_power_cut(self, node: StoreNode) -> None:
        """A prepared cut has come, in the middle of a write."""
        self.crash(node, power=not node.kills_when_off)

    def on_stopped(self, node: StoreNode) -> None:
        self.note(f"{node.name} has stopped")
        self.tell_down(node)
        self._failing.discard(node.name)
        if self.is_healed:  # it was frozen when it was asked to stop, and nobody else starts it any more
            node.start()

    def expect_failed_close(self, node: StoreNode, error: Exception) -> None:
        if node.name not in self._failing:
            raise ViolationError(f"{node.name} cannot close its store, and nothing is wrong with its disk: {error}")
        self.note(f"{node.name} cannot close its store: {error}")

    def on_storage_failure(self, node: StoreNode, why: str) -> None:
        """A node takes no part any more. Somebody starts it again; the disk works then.

        If the disk was full, mostly nobody does: the node goes on by itself.
        """
        if node.name not in self._failing:
            raise ViolationError(f"{node.name} stopped, and nothing was wrong with its disk: {why}")
        if node.is_failed and (node.goes_on_by_itself or not node.is_patient):
            return
        node.is_patient = not node.is_failed and node.goes_on_by_itself and self.rng.random() < self.plan.patient_share
        node.is_failed = True
        incarnation = node.incarnation
        self.note(f"{node.name} takes no part: {why}")
        if node.is_patient:
            return

        def restart() -> None:
            if node.is_up and node.incarnation == incarnation:
                self.crash(node, power=self.rng.random() < 0.5)
                node.start()

        self.at(self.now + self.rng.uniform(0, RESTART_MS), restart)

    def on_room(self, node: StoreNode) -> None:
        """A node whose disk was full takes part again."""
        self.came_back += 1
        self.note(f"{node.name} takes part again")

    # The end ----------------------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        super().check_end()
        for name, node in self.nodes.items():
            for queue in range(QUEUES):
                shown = [message for _, message in node.read_queue(TOPIC, queue)]
                expected = self.checker.messages_of(queue)
                if shown != expected:
                    raise ViolationError(f"queue {queue} of {name} shows {len(shown)} messages of {len(expected)}, or others")


def run_store_seed(seed: int, plan: StorePlan | None = None, *, trace: bool = False) -> StoreWorld:
    """Run a seed of the store level. A violation names the seed and how to replay it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # what nodes log about faults that are meant
    try:
        return replayable(StoreWorld(seed, plan, trace=trace), SEED_VARIABLE)
    finally:
        logging.disable(before)
