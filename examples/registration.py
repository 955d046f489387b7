"""A user registers, and three services get the message: one topic, three groups, a load generator and a summary.

    make run                                             # in one terminal
    .venv/bin/python examples/registration.py            # in another; --users 20000 for more load

    sign-up  ──►  user-registered  ──►  sms       every user gets a text message
                                   ──►  push      users of the app get a notification: the broker filters by tag
                                   ──►  coupons   every user gets exactly one coupon, although the service fails at times
                                                  and the broker then delivers messages again

Each service is a consumer group: it gets every message at its own pace, whether the other services run or not. A service can
run as several processes, which then share the queues.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from skyrocket.client import Admin, Consumer, Message, Producer, Received, RetryLater
from skyrocket.client.helpers import Deduplicator, MemoryClaims

Handle = Callable[[Received], Awaitable[None]]

TOPIC = "user-registered"
FAILS_EVERY = 40  # every fortieth coupon fails at the first attempt
WAIT_S = 60.0


@dataclass
class Service:
    """Counts of one service, for the summary."""

    name: str
    wanted: int = 0
    users: set[str] = field(default_factory=set)
    deliveries: int = 0
    retries: int = 0
    waits_ms: list[float] = field(default_factory=list)

    def record(self, message: Received) -> None:
        self.deliveries += 1
        self.retries += message.reconsume_times > 0
        self.waits_ms.append(time.time() * 1000 - message.born_ms)

    @property
    def is_complete(self) -> bool:
        return len(self.users) >= self.wanted


class Registration:
    def __init__(self, nameserver: str, users: int) -> None:
        self.nameserver = nameserver
        self.users = users
        self.run = secrets.token_hex(4)  # marks the messages of this run; handlers ignore others
        self.sms, self.push, self.coupons = Service("sms"), Service("push"), Service("coupons")
        self.granted: dict[str, int] = {}
        self.once = Deduplicator(MemoryClaims(), scope="coupons")  # use SQLite or Redis with several processes

    # --- the services

    async def send_text(self, message: Received) -> None:
        self.sms.record(message)
        self.sms.users.add(message.keys[0])

    async def notify(self, message: Received) -> None:
        self.push.record(message)
        self.push.users.add(message.keys[0])

    async def grant_coupon(self, message: Received) -> None:
        user = message.keys[0]
        self.coupons.record(message)
        async with self.once.once(user) as first:
            if first:
                if message.reconsume_times == 0 and int(user.rpartition("-")[2]) % FAILS_EVERY == 0:
                    raise RetryLater("the coupon service is down", delay_level=1)  # level 1: deliver again in a second
                self.granted[user] = self.granted.get(user, 0) + 1
        self.coupons.users.add(user)

    def consumers(self) -> list[Consumer]:
        """Create one consumer for each service: three groups of one topic."""
        wanted = {
            "sms": ("*", self.send_text),
            "push": ("app", self.notify),
            "coupons": ("web || app", self.grant_coupon),
        }
        made = []
        for group, (tags, handle) in wanted.items():
            consumer = Consumer(self.nameserver, group=group, start="first")
            consumer.on(TOPIC, tags)(self.of_this_run(handle))
            made.append(consumer)
        return made

    def of_this_run(self, handle: Handle) -> Handle:
        async def handler(message: Received) -> None:
            if message.properties.get("run") == self.run:
                await handle(message)

        return handler

    # --- the load

    async def register(self) -> float:
        """Register all users as fast as the broker accepts messages, and return the seconds."""
        begun = time.monotonic()
        async with Producer(self.nameserver, group="sign-up", linger_ms=1) as producer:
            for number in range(self.users):
                tag = "app" if number % 3 == 0 else "web"
                body = b'{"user": %d, "from": "%b"}' % (number, tag.encode())
                message = Message(TOPIC, body, tag=tag, keys=[f"{self.run}-{number}"], properties={"run": self.run})
                producer.send_soon(message).add_done_callback(lambda done: done.result())
                if number % 1_000 == 999:
                    await producer.flush()
            await producer.flush()
        self.sms.wanted = self.coupons.wanted = self.users
        self.push.wanted = (self.users + 2) // 3
        return time.monotonic() - begun

    # --- the whole example

    async def play(self) -> bool:
        async with Admin(self.nameserver) as admin:
            await admin.topics.create(TOPIC)
        consumers = self.consumers()
        for consumer in consumers:
            await consumer.start()
        try:
            took_s = await self.register()
            print(f"{self.users} users registered in {took_s:.2f} s, {self.users / took_s:,.0f} a second.")
            services = (self.sms, self.push, self.coupons)
            deadline = time.monotonic() + WAIT_S
            while not all(one.is_complete for one in services) and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        finally:
            for consumer in consumers:
                await consumer.close()
        return self.summary(services)

    def summary(self, services: tuple[Service, ...]) -> bool:
        print(f"\n{'service':<10}{'users':>8}{'of':>8}{'delivered':>11}{'again':>7}{'median ms':>11}{'worst ms':>10}")
        for one in services:
            median, worst = statistics.median(one.waits_ms or [0]), max(one.waits_ms or [0])
            counts = f"{len(one.users):>8}{one.wanted:>8}{one.deliveries:>11}{one.retries:>7}"
            print(f"{one.name:<10}{counts}{median:>11.1f}{worst:>10.1f}")
        twice = sum(count > 1 for count in self.granted.values())
        print(f"\n{len(self.granted)} coupons were granted, {twice} of them twice.")
        return all(service.is_complete for service in services) and len(self.granted) == self.users and not twice


def main() -> int:
    parser = argparse.ArgumentParser(description="One topic, three services, a load generator and a summary.")
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--users", type=int, default=2_000)
    given = parser.parse_args()
    logging.getLogger("skyrocket").setLevel(logging.ERROR)  # hide the warning of each failed coupon
    return 0 if asyncio.run(Registration(given.namesrv, given.users).play()) else 1


if __name__ == "__main__":
    sys.exit(main())
