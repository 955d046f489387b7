"""Who of a group consumes which queue: the six strategies of Apache's client, each a pure function of members and queues."""

from __future__ import annotations

from skyrocket.client.strategies.averagely import Averagely
from skyrocket.client.strategies.circle import Circle
from skyrocket.client.strategies.configured import Configured
from skyrocket.client.strategies.consistent_hash import ConsistentHash
from skyrocket.client.strategies.machine_room import MachineRoom
from skyrocket.client.strategies.machine_room_nearby import MachineRoomNearby
from skyrocket.client.strategies.strategy import RebalanceError, Strategy, share

__all__ = [
    "Averagely",
    "Circle",
    "Configured",
    "ConsistentHash",
    "MachineRoom",
    "MachineRoomNearby",
    "RebalanceError",
    "Strategy",
    "share",
]
