"""`python -m skyrocket.pipelines.signup.service_process`: one service of the demo, as a process of its own.

Its orders come as one JSON line on standard input, because they may hold a secret key. It ends in order on SIGTERM, and when
standard input is closed: the job that started it has ended, in whatever way.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from skyrocket.client import Consumer, Message, Producer, Received, RetryLater
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.signup.effect_ledger import EffectLedger
from skyrocket.pipelines.signup.services import BY_NAME, CONCURRENCY, RETRIES_MAX, RETRY_LEVEL, StepOutcome, decide
from skyrocket.pipelines.signup.sign_ups import SignUpBody

COMMIT_MS: Final = 500  # so that the backlog is seen as it is
HOLD_MS: Final = 1_000  # a broker that holds a pull does not tell that only messages with other tags have come


class ServiceOrders(msgspec.Struct):
    """What a service has to know."""

    service: str
    cluster: dict[str, str]  # options of Spark's source that name the cluster
    topic: str
    steps_topic: str  # to which it tells what it has done
    group: str
    ledger: str  # path of its database
    seed: int


class DemoServiceHandler:
    """Serves sign-ups: the effect and its claim in one transaction, then a message about the step."""

    def __init__(self, orders: ServiceOrders, ledger: EffectLedger, producer: Producer) -> None:
        self._orders = orders
        self._ledger = ledger
        self._producer = producer

    async def handle(self, message: Received) -> None:
        orders = self._orders
        decision = decide(orders.seed, orders.service, message.body, message.reconsume_times)
        if decision.outcome is StepOutcome.REFUSE:
            await asyncio.to_thread(self._ledger.refuse, message.keys[0], message.reconsume_times + 1)
            raise RetryLater(decision.why, delay_level=RETRY_LEVEL)
        await asyncio.sleep(decision.step_s)
        if decision.outcome is StepOutcome.FAIL:
            await asyncio.to_thread(self._ledger.note_failure)
            raise RetryLater(decision.why, delay_level=RETRY_LEVEL)
        assert decision.body is not None
        waited_ms = max(0, time.time_ns() // 1_000_000 - message.born_ms)
        await asyncio.to_thread(self._ledger.apply, decision.body.user, waited_ms)
        # Also for a repeat: the process may have died between the effect and this message. Whoever counts, counts users.
        await self._producer.send(self._step_message(decision.body))

    def _step_message(self, body: SignUpBody) -> Message:
        step = SignUpBody(body.user, body.at, body.late, self._orders.service)
        return Message(self._orders.steps_topic, msgspec.json.encode(step), tag=self._orders.service, keys=[body.user])


async def serve(orders: ServiceOrders) -> None:
    """Serve sign-ups until SIGTERM comes or standard input is closed."""
    options = parse_cluster(orders.cluster).client_options()
    ledger = EffectLedger(Path(orders.ledger))
    async with Producer(options=options, group=f"{orders.group}-steps") as producer:
        consumer = Consumer(
            options=options,
            group=orders.group,
            start="first",
            concurrency=CONCURRENCY,
            retries_max=RETRIES_MAX,
            consumer_limits=ConsumerLimits(commit_ms=COMMIT_MS, pull_hold_ms=HOLD_MS),
        )
        handler = DemoServiceHandler(orders, ledger, producer)
        consumer.on(orders.topic, BY_NAME[orders.service].tags)(handler.handle)
        _stop_at_end_of_input(consumer)
        await consumer.run()
    ledger.close()


def _stop_at_end_of_input(consumer: Consumer) -> None:
    loop = asyncio.get_running_loop()

    def wait_for_end() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(consumer.stop)

    threading.Thread(target=wait_for_end, name="skyrocket-input", daemon=True).start()


def main() -> None:
    """Read the orders and serve."""
    logging.getLogger("skyrocket").setLevel(logging.ERROR)  # each failed attempt is a warning, and they are part of the demo
    asyncio.run(serve(msgspec.json.decode(sys.stdin.buffer.readline(), type=ServiceOrders)))


if __name__ == "__main__":
    main()
