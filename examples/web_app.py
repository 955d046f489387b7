"""A web application with FastAPI: a request sends a message, and a consumer in the same process handles it.

    make run                                             # in one terminal
    .venv/bin/python examples/web_app.py                 # in another; make setup installs fastapi and uvicorn
    curl -X POST 'http://127.0.0.1:8000/orders?item=tea' # in a third: the response has the order's number
    curl http://127.0.0.1:8000/orders/NUMBER             # and its state

Producer and consumer live as long as the application and run in its event loop, without threads. A request awaits its send like a
database query. When the broker does not respond, the visitor gets 503 with the reason.
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
ORDERS_MAX = 10_000  # kept in memory
SEND_S = 3.0


class Shop:
    """The state of the application: its orders."""

    def __init__(self, nameserver: str) -> None:
        self._nameserver = nameserver
        self._states: dict[str, str] = {}
        self._producer: Producer | None = None

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Start the clients with the application and stop them with it. The consumer stops first and finishes its messages."""
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(self._nameserver))
            await admin.topics.create(TOPIC, queues=4)
            self._producer = await stack.enter_async_context(Producer(self._nameserver, group="web"))
            consumer = Consumer(self._nameserver, group="kitchen", start="first")
            consumer.on(TOPIC)(self.prepare)
            await stack.enter_async_context(consumer)
            yield

    async def order(self, item: str) -> str:
        assert self._producer is not None, "the application is not running"
        number = secrets.token_hex(8)
        self._remember(number, "ordered")
        async with asyncio.timeout(SEND_S):
            await self._producer.send(Message(TOPIC, item.encode(), keys=[number]))
        return number

    async def prepare(self, message: Received) -> None:
        """Handle an order from the broker. After a crash it may come twice, which does no harm here."""
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
            raise HTTPException(503, f"The order could not be taken: {str(error) or 'the broker does not respond'}") from error

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
