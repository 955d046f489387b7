"""Rebalance strategies: which member of a group consumes which queue. The six of Apache's client, as pure functions."""

from __future__ import annotations

from skyrocket.client.consumer.strategies.averagely import Averagely
from skyrocket.client.consumer.strategies.circle import Circle
from skyrocket.client.consumer.strategies.configured import Configured
from skyrocket.client.consumer.strategies.consistent_hash import ConsistentHash
from skyrocket.client.consumer.strategies.machine_room import MachineRoom
from skyrocket.client.consumer.strategies.machine_room_nearby import MachineRoomNearby
from skyrocket.client.consumer.strategies.strategy import RebalanceError, Strategy, allocate_queues

__all__ = [
    "Averagely",
    "Circle",
    "Configured",
    "ConsistentHash",
    "MachineRoom",
    "MachineRoomNearby",
    "RebalanceError",
    "Strategy",
    "allocate_queues",
]
