"""Events in order: created, paid, packed, shipped. Many orders at once and two consumers, one of which leaves.

    make run                                             # in one terminal
    .venv/bin/python examples/ordered.py                 # in another

The sharding key of an event is the number of its order, so all events of an order are in one queue, in order. An orderly
consumer locks its queues at the broker and handles the messages of a queue one by one. Different orders proceed in parallel.
When a consumer leaves, another one takes its queues over: an event may then come twice, but never before its predecessor.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys

from skyrocket.client import Admin, Consumer, ConsumerLimits, Message, Producer, Received

TOPIC = "order-events"
STEPS = ("created", "paid", "packed", "shipped")
WAIT_S = 60.0
SOON = ConsumerLimits(rebalance_again_ms=200, when_not_locked_ms=200)


class Ledger:
    """The state of each order, and the events that came out of order."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.steps: dict[str, int] = {}  # order -> number of finished steps
        self.wrong: list[str] = []
        self.again = 0

    async def book(self, message: Received) -> None:
        order, step = message.sharding_key, STEPS.index(message.tag)
        if not order.startswith(self.run):
            return  # from an earlier run
        taken = self.steps.get(order, 0)
        await asyncio.sleep(0.001)  # the work; no later event of the order may overtake it
        if step < taken:
            self.again += 1
        elif step == taken:
            self.steps[order] = taken + 1
        else:
            self.wrong.append(f"{order}: {message.tag} came after {STEPS[taken - 1] if taken else 'nothing'}")

    def finished(self) -> int:
        return sum(taken == len(STEPS) for taken in self.steps.values())


def consumer_of(nameserver: str, ledger: Ledger) -> Consumer:
    consumer = Consumer(nameserver, group="ledger", start="first", orderly=True, consumer_limits=SOON)
    consumer.on(TOPIC)(ledger.book)
    return consumer


async def play(nameserver: str, orders: int) -> bool:
    run = secrets.token_hex(4)
    ledger = Ledger(run)
    async with Admin(nameserver) as admin:
        await admin.topics.create(TOPIC, queues=8)
    first, second = consumer_of(nameserver, ledger), consumer_of(nameserver, ledger)
    async with first, second:
        async with Producer(nameserver, group="shop") as producer:
            for number, step in enumerate(STEPS):
                for order in range(orders):
                    message = Message(TOPIC, b"%d" % order, tag=step, sharding_key=f"{run}-{order}", keys=[f"{run}-{order}"])
                    await producer.send(message)
                if number == 1:
                    await second.close()
                    print("One consumer has left. The other one takes its queues over.")
        try:
            async with asyncio.timeout(WAIT_S):
                while ledger.finished() < orders:  # noqa: ASYNC110 — the handler changes it
                    await asyncio.sleep(0.05)
        except TimeoutError:
            print("Not every order is finished.")
    print(
        f"{ledger.finished()} of {orders} orders went through {', '.join(STEPS)}; {len(ledger.wrong)} events came out of order."
    )
    print(f"{ledger.again} events came twice.")
    return ledger.finished() == orders and not ledger.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Events in order, while consumers come and go.")
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--orders", type=int, default=100)
    given = parser.parse_args()
    return 0 if asyncio.run(play(given.namesrv, given.orders)) else 1


if __name__ == "__main__":
    sys.exit(main())
