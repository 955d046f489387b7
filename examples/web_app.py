"""A web application with FastAPI: a request sends a message, and a consumer in the same process works on what was sent.

    make run                                             # in one terminal
    .venv/bin/python examples/web_app.py                 # in another; make setup installs fastapi and uvicorn
    curl -X POST 'http://127.0.0.1:8000/orders?item=tea' # in a third: the answer has the order's number
    curl http://127.0.0.1:8000/orders/NUMBER             # and how far it is

Producer and consumer live as long as the application, in its event loop: there are no threads, and a request awaits its send as
it would a database. When the broker does not answer, the visitor is told so with 503 and a sentence.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException

from skyrocket.client import Admin, ClientError, Consumer, Message, Producer, Received

TOPIC = "web-orders"
ORDERS_MAX = 10_000  # that are remembered
SEND_S = 3.0


class Shop:
    """The application's state: what became of the orders."""

    def __init__(self, nameserver: str) -> None:
        self._nameserver = nameserver
        self._states: dict[str, str] = {}
        self._producer: Producer | None = None

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """From the application's start to its end. The consumer ends first: it finishes what it took."""
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(self._nameserver))
            await admin.topics.create(TOPIC, queues=4)
            self._producer = await stack.enter_async_context(Producer(self._nameserver, group="web"))
            consumer = Consumer(self._nameserver, group="kitchen", start="first")
            consumer.on(TOPIC)(self.prepare)
            await stack.enter_async_context(consumer)
            yield

    async def order(self, item: str) -> str:
        assert self._producer is not None, "the application runs"
        number = secrets.token_hex(8)
        self._remember(number, "ordered")
        async with asyncio.timeout(SEND_S):
            await self._producer.send(Message(TOPIC, item.encode(), keys=[number]))
        return number

    async def prepare(self, message: Received) -> None:
        """An order comes from the broker; after a crash perhaps a second time, which does no harm here."""
        await asyncio.sleep(0.01)  # the work
        self._remember(message.keys[0], f"{message.body.decode()} is ready")

    def state(self, number: str) -> str | None:
        return self._states.get(number)

    def _remember(self, number: str, state: str) -> None:
        self._states[number] = state
        while len(self._states) > ORDERS_MAX:
            del self._states[next(iter(self._states))]


def application(nameserver: str) -> FastAPI:
    shop = Shop(nameserver)
    app = FastAPI(title="Orders", lifespan=shop.running)

    @app.post("/orders")
    async def order(item: str) -> dict[str, str]:
        try:
            return {"number": await shop.order(item)}
        except (ClientError, TimeoutError) as error:
            raise HTTPException(503, f"The order could not be taken: {error or 'the broker does not answer'}") from error

    @app.get("/orders/{number}")
    async def state(number: str) -> dict[str, str]:
        found = shop.state(number)
        if found is None:
            raise HTTPException(404, f"There is no order {number}.")
        return {"number": number, "state": found}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    uvicorn.run(application(given.namesrv), host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
