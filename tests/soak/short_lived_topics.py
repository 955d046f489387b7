"""Topics that are created, used, deleted and created again: a deleted topic stays away, and a new one begins empty."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import count

from skyrocket.client import Admin, ClientError, Message, NoRouteError, Producer
from tests.soak.clock import Clock
from tests.soak.processes import are_all_there, read_starts, wait_for_brokers

TOPICS = tuple(f"soak-short-{number}" for number in range(3))
MESSAGES = 10
DELETE_S_MAX = 120.0
VISIBLE_S_MAX = 60.0


class ShortLivedTopics:
    name = "short-lived topics"

    def __init__(self, nameserver: str, clock: Clock) -> None:
        self._nameserver = nameserver
        self._clock = clock
        self.counts: Counter[str] = Counter()
        self._problems: list[str] = []

    async def start(self) -> None:
        """Nothing to prepare."""

    async def work(self) -> None:
        await asyncio.gather(*(self._live_again(topic) for topic in TOPICS))

    async def _live_again(self, topic: str) -> None:
        chance = self._clock.chance(topic)
        async with Admin(self._nameserver) as admin:
            for life in count(1):
                if not self._clock.is_running:
                    return
                try:
                    await self._live(admin, topic, life, chance.uniform(0, 4))
                    self.counts["lives"] += 1
                except ClientError as error:  # a server was away: what state the topic is in is settled by its deletion
                    self.counts[type(error).__name__] += 1
                is_certain = await self._delete(admin, topic)
                await asyncio.sleep(chance.uniform(0, 2))
                if is_certain:
                    await self._check_away(admin, topic)

    async def _live(self, admin: Admin, topic: str, life: int, rest_s: float) -> None:
        await admin.topics.create(topic, queues=2)
        acknowledged: set[str] = set()
        # A producer of its own: it knows nothing of an earlier life.
        async with Producer(self._nameserver, retries=0, instance=f"{topic}-{life}") as producer:
            for number in range(MESSAGES):
                name = f"{topic}/{life}/{number}"
                try:
                    if (await producer.send(Message(topic, name.encode()))).is_safe:
                        acknowledged.add(name)
                except NoRouteError:
                    raise
                except ClientError:
                    self.counts["sends failed"] += 1
        await asyncio.sleep(rest_s)  # servers may be killed meanwhile
        found = await self._read(admin, topic, acknowledged)
        old = [name for name in found if name.split("/")[1] != str(life)]
        if old:
            self._problems.append(f"{topic} in its life {life} has messages of another life: {sorted(old)[:5]}")
        if lost := acknowledged - found:
            self._problems.append(f"{topic} in its life {life} lost {len(lost)} of {len(acknowledged)}: {sorted(lost)[:5]}")

    async def _read(self, admin: Admin, topic: str, acknowledged: set[str]) -> set[str]:
        """Read the topic until all that was acknowledged is there: with a full disk, queues may be behind the log for a while."""
        began_s = self._clock.now_s
        while True:
            await wait_for_brokers(admin)
            found = {message.body.decode() async for message in admin.messages.read(topic)}
            if found >= acknowledged or self._clock.now_s - began_s > VISIBLE_S_MAX:
                return found
            await asyncio.sleep(0.5)

    async def _delete(self, admin: Admin, topic: str) -> bool:
        """Delete the topic at every broker. Repeat it until all of them were there to do so, from its first to its last moment.

        Return whether no attempt was refused. Where a broker refused one, for a full disk, the topic may come back.
        """
        began_s = self._clock.now_s
        error: ClientError | None = None
        while self._clock.now_s - began_s < DELETE_S_MAX:
            try:
                await wait_for_brokers(admin)
                starts = await read_starts(admin)
                with suppress(NoRouteError):  # an earlier attempt deleted it, and only its answer was lost
                    await admin.topics.delete(topic)
                # A broker that is away keeps its part of the topic, also one that is back before the others have answered.
                if starts is not None and starts == await read_starts(admin) and await are_all_there(admin):
                    self.counts["deleted"] += 1
                    return error is None
            except ClientError as refused:
                error = refused
            await asyncio.sleep(0.5)
        self._problems.append(f"{topic} could not be deleted for {DELETE_S_MAX} s: {error}")
        return False

    async def _check_away(self, admin: Admin, topic: str) -> None:
        """Look for the topic at the nameserver. A deletion is answered when no registration under way names it any more."""
        try:
            if topic in await admin.topics.names():
                self._problems.append(f"{topic} was deleted and is there again at {self._clock.now_s:.1f} s")
        except ClientError as error:
            self.counts[type(error).__name__] += 1

    def is_settled(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is left open."""

    def problems(self) -> list[str]:
        return [f"{self.name}: {each}" for each in self._problems]

    def figures(self) -> dict[str, object]:
        return dict(self.counts)
