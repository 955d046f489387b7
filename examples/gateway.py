"""A gateway: HTTP in front, a queue behind, and answers that find their way back. More requests come than the workers can do.

    make run                                             # in one terminal
    .venv/bin/python examples/gateway.py                 # in another

The gateway sends each HTTP request as a message and waits for the reply (request–reply), for at most half a second. Then it
refuses the request with 503, and nobody waits for it any more. So the workers skip messages that are older than that
(`skip_older_than`): they spend their time on requests that can still be answered. Without it, a burst would leave a backlog in
which every request is too late, and the workers would be busy for nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from contextlib import suppress

from skyrocket.client import Admin, ClientError, Consumer, Message, Producer, Received, RequestTimedOutError

TOPIC = "squares"
LIMIT_MS = 500  # how long an HTTP request may wait
WORK_S = 0.05  # what one request takes
WORKERS = 4
READY_MS = 60_000
DRAINED_S = 60.0


class Gateway:
    """Turns `GET /7` into a message, and its reply into the response."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            number = head.split(b" ")[1].lstrip(b"/")
            try:
                reply = await self._producer.request(Message(TOPIC, number), timeout_ms=LIMIT_MS)
                status, body = b"200 OK", reply.body
            except RequestTimedOutError:
                status, body = b"503 Service Unavailable", b"too many requests"
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body))
            await writer.drain()
        finally:
            writer.close()


class Workers:
    """The service behind the queue."""

    def __init__(self, nameserver: str, producer: Producer) -> None:
        self._producer = producer
        self.done = 0
        self.consumer = Consumer(nameserver, group="square-workers", start="first", concurrency=WORKERS, skip_older_than=LIMIT_MS)
        self.consumer.on(TOPIC)(self._work)

    async def _work(self, message: Received) -> None:
        await asyncio.sleep(WORK_S)
        with suppress(ClientError):  # whoever asked has gone: the reply would help nobody
            await self._producer.reply_to(message, b"%d" % int(message.body) ** 2)
        self.done += 1

    @property
    def skipped(self) -> int:
        return sum(count.total for count in self.consumer.skipped.values())


async def ask(port: int, number: int) -> str:
    """Send one HTTP request. Returns how it ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    if b" 503 " in head.partition(b"\r\n")[0]:
        return "refused"
    return "answered" if body == b"%d" % number**2 else "wrong"


async def play(nameserver: str, requests: int) -> bool:
    async with Admin(nameserver) as admin:
        await admin.topics.create(TOPIC, queues=4)
    async with Producer(nameserver, group="gateway") as producer:
        workers = Workers(nameserver, producer)
        async with workers.consumer:
            await wait_until_ready(producer)
            earlier = workers.done + workers.skipped
            server = await asyncio.start_server(Gateway(producer).serve, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                print(f"The gateway listens at http://127.0.0.1:{port}/7. {requests} requests come at once.")
                ends = Counter(await asyncio.gather(*(ask(port, number) for number in range(requests))))
                await drain(workers, earlier + requests)
            done, skipped = workers.done, workers.skipped
    print(f"{ends['answered']} requests were answered, {ends['refused']} refused with 503 after {LIMIT_MS} ms.")
    print(f"The workers did {done} and skipped {skipped} that nobody waited for any more.")
    print(f"{ends['wrong']} answers were wrong.")
    return ends["answered"] > 0 and not ends["wrong"] and ends["answered"] + ends["refused"] == requests


async def wait_until_ready(producer: Producer) -> None:
    """Ask until the workers answer: a request that was sent before they had their queues is too old for them."""
    async with asyncio.timeout(READY_MS / 1000):
        while True:
            try:
                await producer.request(Message(TOPIC, b"1"), timeout_ms=LIMIT_MS)
            except RequestTimedOutError:
                continue
            return


async def drain(workers: Workers, total: int) -> None:
    """Wait until every request is done or skipped."""
    try:
        async with asyncio.timeout(DRAINED_S):
            while workers.done + workers.skipped < total:  # noqa: ASYNC110 — the handlers change it
                await asyncio.sleep(0.05)
    except TimeoutError:
        print("Some requests still wait in the queue.")


def main() -> int:
    parser = argparse.ArgumentParser(description="HTTP in front, a queue behind.")
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--requests", type=int, default=300)
    given = parser.parse_args()
    return 0 if asyncio.run(play(given.namesrv, given.requests)) else 1


if __name__ == "__main__":
    sys.exit(main())
