"""A simulated group: a clock, nodes, a network, producers and faults, all from one seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from skyrocket.protocol.bodies.dledger import DLedgerEntry, LeadershipTransferRequest
from skyrocket.raft.errors import RefusalReason
from skyrocket.raft.ports import Request, Role
from tests.sim.invariants import Checker, Message, ViolationError
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.plan import Plan

QUEUES = 3
PROGRESS_MS = 5_000
SETTLE_MS = 4_000
ANSWER_WAIT_MS = 300
SEED_VARIABLE = "SKYROCKET_SIM_SEED"


class Producer:
    """Sends numbered messages to one queue. It sends the next when one is acknowledged, or when it has waited long enough."""

    def __init__(self, world: World, queue: int) -> None:
        self._world = world
        self._queue = queue
        self._number = 0
        self._open: list[bytes] = []
        self.acknowledged = 0

    def send(self) -> None:
        world = self._world
        world.at(world.now + world.plan.send_every_ms * world.rng.uniform(0.5, 1.5), self.send)
        if self._open:
            return
        leaders = [node for node in world.nodes.values() if node.raft is not None and node.raft.role is Role.LEADER]
        if not leaders:
            return
        count = world.rng.choice([1, 1, 1, 4])
        bodies = [Message(self._queue, self._number + place).encode() for place in range(count)]
        self._number += count  # never sent again, whatever becomes of it
        waiting = list(bodies)

        def acknowledge(_: int) -> None:
            self.acknowledged += 1
            del waiting[:1]

        self._open = waiting
        if not world.rng.choice(leaders).propose(bodies, acknowledge):
            waiting.clear()
        world.at(world.now + ANSWER_WAIT_MS, waiting.clear)


class World:
    """One run. `run` raises ViolationError when an invariant does not hold."""

    def __init__(self, seed: int, plan: Plan | None = None, *, trace: bool = False) -> None:
        self.seed = seed
        self.plan = plan or Plan(seed)
        self.rng = random.Random(seed ^ 0x5EED)
        self.now = 0.0
        self.trace: list[str] | None = [] if trace else None
        self.refusals: dict[RefusalReason, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self.steps = 0
        self.is_healed = False
        self.checker = self.make_checker()
        self.names = [f"n{number}" for number in range(self.plan.size)]
        loose = set(self.rng.sample(self.names, self.plan.loose))
        self.nodes = {name: self.make_node(name, loose=name in loose) for name in self.names}
        self.network = Network(self)
        self._producers = [Producer(self, queue) for queue in range(QUEUES)]

    def make_checker(self) -> Checker:
        return Checker(strict=not self.plan.weak)

    def make_node(self, name: str, *, loose: bool) -> Any:
        return SimNode(self, name, loose=loose)

    def logs(self) -> dict[str, Sequence[DLedgerEntry]]:
        """Return the log of each node that can be read now."""
        return {name: node.log for name, node in self.nodes.items()}

    # Time -------------------------------------------------------------------------------------------------------------

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, action))

    def run_until(self, time: float, done: Callable[[], bool] | None = None) -> bool:
        """Let time pass. Return True as soon as `done` holds."""
        while self._events and self._events[0][0] <= time:
            self.now, _, action = heapq.heappop(self._events)
            self.steps += 1
            action()
            if done is not None and done():
                return True
        self.now = max(self.now, time)
        return False

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:9.1f} {text}")

    # A run ------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        plan, network = self.plan, self.network
        network.loss, network.repeat, network.late = plan.loss, plan.repeat, plan.late
        for node in self.nodes.values():
            self.at(self.rng.uniform(0, 50), node.start)
        for producer in self._producers:
            self.at(self.rng.uniform(0, 50), producer.send)
        self.run_until(600)
        while self.now < 600 + plan.faulty_ms:
            self._fault()
            self.run_until(self.now + self.rng.uniform(0.3, 1.7) * plan.fault_every_ms)
        self._heal()

    def _heal(self) -> None:
        self.note("heal everything")
        self.is_healed = True
        self.plan.send_every_ms = min(self.plan.send_every_ms, 100)
        network = self.network
        network.heal()
        network.loss = network.repeat = network.late = 0.0
        self.make_sound()
        for node in self.nodes.values():
            if not node.is_up:
                node.start()
        if self.plan.weak:
            self.run_until(self.now + SETTLE_MS)
            return
        healed = self.now
        before = sum(producer.acknowledged for producer in self._producers)
        goal = before + 5
        if not self.run_until(healed + PROGRESS_MS, lambda: sum(p.acknowledged for p in self._producers) >= goal):
            roles = {
                name: node.raft and (node.raft.role.value, node.raft.term, node.raft.end_index)
                for name, node in self.nodes.items()
            }
            raise ViolationError(f"no progress within {PROGRESS_MS} ms after healing: {roles}")
        for producer in self._producers:
            producer.send = lambda: None  # type: ignore[method-assign]
        self._events = [event for event in self._events if getattr(event[2], "__name__", "") != "send"]
        heapq.heapify(self._events)
        if not self.run_until(self.now + SETTLE_MS, self._is_settled):
            states = {name: (node.readable, len(node.log)) for name, node in self.nodes.items()}
            raise ViolationError(f"the logs are not equal {SETTLE_MS} ms after the last message: {states}")
        self.check_end()

    def make_sound(self) -> None:
        for node in self.nodes.values():
            node.recover_speed()

    def check_end(self) -> None:
        self.checker.end(self.logs())

    def _is_settled(self) -> bool:
        ends = {len(node.log) for node in self.nodes.values()}
        return len(ends) == 1 and {node.readable for node in self.nodes.values()} == {ends.pop() - 1}

    # Faults -----------------------------------------------------------------------------------------------------------

    def _up(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def _leader(self) -> SimNode | None:
        leaders = [node for node in self._up() if node.raft is not None and node.raft.role is Role.LEADER]
        return self.rng.choice(leaders) if leaders else None

    def crash(self, node: SimNode, *, power: bool) -> None:
        if node.loose and not self.plan.weak:
            power = False
        self.note(f"{node.name}: {'power cut' if power else 'killed'}")
        node.crash(power=power)
        self.tell_down(node)

    def tell_down(self, node: SimNode) -> None:
        """The others notice that a node's connections are closed, now or a little later."""
        incarnation = node.incarnation
        for other in self._up():

            def notice(other: SimNode = other, at: int = other.incarnation) -> None:
                if other.is_up and other.incarnation == at:
                    other.peers_known_down[node.name] = max(other.peers_known_down.get(node.name, 0), incarnation)
                    other.note_down(node.name)

            if self.rng.random() < 0.7:
                self.at(self.now + self.rng.uniform(0, 20), notice)
            else:
                other.peers_known_down[node.name] = incarnation

    def _fault(self) -> None:
        rng = self.rng
        name = rng.choices(list(self.plan.weights), list(self.plan.weights.values()))[0]
        node = self.nodes[rng.choice(self.names)]
        leader = self._leader()
        self.note(f"fault: {name}")
        self.checker.match_logs({name: log for name, log in self.logs().items() if not self.nodes[name].loose})
        self.apply(name, node, leader)

    def apply(self, name: str, node: Any, leader: Any) -> None:
        """Let a fault of the table `FAULTS` happen, to a node or to the leader."""
        rng, network = self.rng, self.network
        match name:
            case "kill" | "power cut" if node.is_up:
                self.crash(node, power=name == "power cut")
            case "kill leader" if leader is not None:
                self.crash(leader, power=rng.random() < 0.5)
            case "power cut of all":
                for each in self._up():
                    self.crash(each, power=True)
                for each in self.nodes.values():
                    self.at(self.now + rng.uniform(1, 300), lambda each=each: None if each.is_up else each.start())
            case "start":
                for each in self.nodes.values():
                    if not each.is_up and rng.random() < 0.7:
                        self.note(f"{each.name} starts")
                        each.start()
            case "split":
                network.heal()
                network.split(set(rng.sample(self.names, rng.randint(1, len(self.names) // 2))))
            case "isolate leader" | "isolate only the leader" if leader is not None:
                if name == "isolate only the leader":
                    network.heal()
                network.split({leader.name})
            case "deafen":
                network.deafen(node.name)
            case "silence":
                network.silence(node.name)
            case "ring":
                network.heal()
                network.make_ring()
            case "one-way ring":
                network.heal()
                network.make_one_way_ring()
            case "cut link":
                network.cut_link(*rng.sample(self.names, 2))
            case "heal":
                network.heal()
            case "slow disk":
                node.slow_disk = rng.choice([5, 20])
            case "fast disk":
                for each in self.nodes.values():
                    each.recover_speed()
            case "wipe":
                self._wipe(node)
            case "transfer" if leader is not None and leader.raft is not None:
                request = LeadershipTransferRequest(
                    group="g", remote_id=leader.name, term=leader.raft.term, transfer_id=leader.name, transferee_id=node.name
                )
                leader.feed(Request(0, request))

    def _wipe(self, node: SimNode) -> None:
        """A node loses its disk. Only one at a time, and not before each node has entries: a new group has nothing to lose."""
        others = [other for other in self.nodes.values() if other is not node]
        if any(not other.has_entries or other.is_learner for other in others) or self.plan.weak:
            return
        if node.is_up:
            self.crash(node, power=False)
        self.note(f"{node.name} loses its disk")
        node.lose_disk()


AnyWorld = TypeVar("AnyWorld", bound=World)


def replayable(world: AnyWorld, variable: str) -> AnyWorld:
    """Run a world. A violation names the seed and how to replay it."""
    try:
        world.run()
    except AssertionError as error:
        lines = "\n".join((world.trace or [])[-200:])
        how = f"Replay with: {variable}={world.seed} make sim"
        raise ViolationError(
            f"seed {world.seed} ({world.plan.kind}, {world.plan.size} nodes): {error!r}. {how}\n{lines}"
        ) from error
    return world


def run_seed(seed: int, plan: Plan | None = None, *, trace: bool = False) -> World:
    return replayable(World(seed, plan, trace=trace), SEED_VARIABLE)
