"""An administrator who never rests: lists, statistics, settings, groups and offsets, one command after another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from skyrocket.client import Admin, ClientError
from tests.soak.clock import Clock
from tests.soak.messages import TOPIC
from tests.soak.processes import BROKERS

PAUSE_S = 0.2
GROUP = "soak-scratch"


class Administration:
    name = "administration"

    def __init__(self, nameserver: str, clock: Clock) -> None:
        self._nameserver = nameserver
        self._clock = clock
        self.answers: Counter[str] = Counter()

    async def start(self) -> None:
        """Nothing to prepare."""

    async def work(self) -> None:
        chance = self._clock.chance(self.name)
        async with Admin(self._nameserver) as admin:
            commands = self._commands(admin)
            while self._clock.is_running:
                name = chance.choice(list(commands))
                try:
                    await commands[name]()
                    self.answers[name] += 1
                except ClientError as error:
                    self.answers[f"{name}: {type(error).__name__}"] += 1
                await asyncio.sleep(PAUSE_S)

    def _commands(self, admin: Admin) -> dict[str, Callable[[], Awaitable[object]]]:
        return {
            "topic names": lambda: admin.topics.names(internal=True),
            "topic status": lambda: admin.topics.status(TOPIC),
            "topic groups": lambda: admin.topics.groups(TOPIC),
            "group names": admin.groups.names,
            "group members": lambda: admin.groups.members(f"{TOPIC}-group"),
            "group progress": lambda: admin.groups.progress(f"{TOPIC}-group"),
            "group create": lambda: admin.groups.create(GROUP, retries_max=3),
            "group delete": lambda: admin.groups.delete(GROUP),
            "offset reset": lambda: admin.offsets.reset(GROUP, TOPIC, "last"),
            "offset get": lambda: admin.offsets.get(f"{TOPIC}-group", TOPIC),
            "message peek": lambda: admin.messages.peek(TOPIC, most=5),
            "states": admin.cluster.states,
            "runtime": lambda: admin.cluster.runtime(BROKERS[0]),
            "config": lambda: admin.cluster.config(BROKERS[1]),
            "update config": lambda: admin.cluster.update_config(BROKERS[1], {"fileReservedTime": "48"}),
            "producers": admin.groups.producers,
        }

    def is_settled(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is left open."""

    def problems(self) -> list[str]:
        served = sum(count for name, count in self.answers.items() if ":" not in name)
        return [] if served else [f"administration: no command succeeded: {dict(self.answers)}"]

    def figures(self) -> dict[str, object]:
        served = sum(count for name, count in self.answers.items() if ":" not in name)
        return {"served": served, "failed": {name: count for name, count in self.answers.items() if ":" in name}}
