"""The sign-up page: takes sign-ups at their times, and answers after all steps (in-line) or after the send (over the queue).

A latency counts from the moment at which a person asked, not from the moment at which the page began to work on it: a page that
is too slow keeps people waiting before it begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from skyrocket.client import ClientError, Message, Producer
from skyrocket.pipelines.signup.services import SERVICES, step_seconds
from skyrocket.pipelines.signup.sign_ups import DemoSettings, SignUp, encode_body, split_users

IN_LINE_WORKERS: Final = 32  # requests that the page works on at a time, as a server with so many threads
QUEUED_WORKERS: Final = 256

Answer = Callable[[SignUp], Awaitable[None]]


@dataclass(slots=True)
class LoadResult:
    """What became of a load."""

    latencies_ms: list[float] = field(default_factory=list)  # of sign-ups that were answered
    answered: list[SignUp] = field(default_factory=list)
    failed: list[SignUp] = field(default_factory=list)
    first_failure: str = ""

    def users(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the users whose sign-up was answered and those whose poison was, with their channels."""
        return split_users(self.answered)


async def play_load(sign_ups: Sequence[SignUp], answer: Answer, workers: int, result: LoadResult) -> None:
    """Answer each sign-up at its time, at most `workers` at once, and fill `result` as answers come."""
    slots = asyncio.Semaphore(workers)
    began_s = time.perf_counter()

    async def serve(sign_up: SignUp) -> None:
        async with slots:
            try:
                await answer(sign_up)
            except ClientError as error:
                result.failed.append(sign_up)
                result.first_failure = result.first_failure or str(error)
                return
        result.latencies_ms.append((time.perf_counter() - began_s - sign_up.at_s) * 1000)
        result.answered.append(sign_up)

    async with asyncio.TaskGroup() as tasks:
        for sign_up in sign_ups:
            await asyncio.sleep(max(0.0, began_s + sign_up.at_s - time.perf_counter()))
            tasks.create_task(serve(sign_up))


def answer_in_line(settings: DemoSettings) -> Answer:
    """Return the in-line version: the page calls each service in turn, and answers when the last one is done."""
    steps = [service for service in SERVICES if service.is_in_line]

    async def answer(sign_up: SignUp) -> None:
        for service in steps:
            if service.takes(sign_up.channel):
                await asyncio.sleep(step_seconds(settings.seed, service.name, sign_up.user))

    return answer


def answer_queued(settings: DemoSettings, producer: Producer, topic: str, began_ms: int) -> Answer:
    """Return the queued version: the page sends one message, and answers when the broker has it."""

    async def answer(sign_up: SignUp) -> None:
        body = encode_body(sign_up, began_ms, settings.minute_s)
        await producer.send(Message(topic, body, tag=sign_up.channel, keys=[sign_up.user]))

    return answer
