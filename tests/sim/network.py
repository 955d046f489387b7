"""A network that loses, repeats, delays and reorders messages, and whose links break one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyrocket.protocol.bodies.dledger import LedgerMessage, PushEntryRequest
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import decode_push, encode_push

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World


class Network:
    """Links between nodes. A message that a node sent before it crashed may still arrive, until its peer notices the crash."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: set[tuple[str, str]] = set()
        self.loss = 0.0
        self.repeat = 0.0
        self.late = 0.0

    def send(self, sender: SimNode, to: str, kind: str, request_id: int, message: LedgerMessage) -> None:
        world, rng = self._world, self._world.rng
        receiver = world.nodes[to]
        copies = 2 if rng.random() < self.repeat else 1
        if world.plan.on_wire:
            message = through_the_wire(message, binary=rng.random() < 0.5)
        incarnations = (sender.incarnation, receiver.incarnation)
        for _ in range(copies):
            if (sender.name, to) in self.broken or rng.random() < self.loss:
                continue
            delay = rng.uniform(0.2, 4) if rng.random() >= self.late else rng.uniform(4, 200)

            def arrive() -> None:
                if receiver.raft is None or receiver.incarnation != incarnations[1]:
                    return
                if receiver.peers_known_down.get(sender.name, 0) >= incarnations[0] or (sender.name, to) in self.broken:
                    return
                receiver.receive(sender.name, kind, request_id, message)

            world.at(world.now + delay, arrive)

    # Partitions -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        self.broken.clear()

    def split(self, side: set[str]) -> None:
        """No message passes between `side` and the others."""
        for one in self._world.names:
            for two in self._world.names:
                if (one in side) != (two in side):
                    self.broken.add((one, two))

    def deafen(self, name: str) -> None:
        """A node sends, and hears nothing."""
        self.broken |= {(other, name) for other in self._world.names if other != name}

    def silence(self, name: str) -> None:
        """A node hears, and nothing that it sends arrives."""
        self.broken |= {(name, other) for other in self._world.names if other != name}

    def make_ring(self) -> None:
        """Each node reaches its two neighbours only."""
        names = self._world.names
        for place, one in enumerate(names):
            near = {names[place - 1], one, names[(place + 1) % len(names)]}
            self.broken |= {(one, two) for two in names if two not in near}

    def make_one_way_ring(self) -> None:
        """Each node reaches the next one only, and is heard by nobody else."""
        names = self._world.names
        following = dict(zip(names, [*names[1:], names[0]], strict=True))
        self.broken |= {(one, two) for one in names for two in names if two not in (one, following[one])}

    def cut_link(self, one: str, two: str) -> None:
        self.broken |= {(one, two), (two, one)}


def through_the_wire(message: LedgerMessage, *, binary: bool) -> LedgerMessage:
    """Encode and decode a message, as between real nodes."""
    if isinstance(message, PushEntryRequest) and binary:
        return decode_push(encode_push(message))
    return decode(encode(message), type(message))
