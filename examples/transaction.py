"""An order is paid: commit the row in the database and the message about it together, or neither.

    make run                                             # in one terminal
    .venv/bin/python examples/transaction.py             # in another

First the broker stores the message as a half message, which no consumer sees. Then the producer books the payment, here in
SQLite. Then it commits the message or rolls it back; consumers see only committed messages. For one of the three orders the
producer "dies" between the booking and the commit. Some seconds later the broker asks, and `booked` looks into the database, as
after a restart.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from skyrocket.client import Admin, Consumer, Message, Outcome, Received, TransactionProducer

TOPIC = "order-paid"
WAIT_S = 60.0


class Orders:
    """The database. Its methods are plain functions, which the client runs in threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.transaction() as database:
            database.execute("CREATE TABLE paid (number TEXT PRIMARY KEY, cents INTEGER CHECK (cents > 0))")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=10)) as database, database:
            yield database

    def book(self, message: Message, _transaction_id: str) -> Outcome:
        """Book the payment: the local transaction."""
        try:
            with self.transaction() as database:
                database.execute("INSERT INTO paid VALUES (?, ?)", (next(iter(message.keys)), int(message.body)))
        except sqlite3.IntegrityError as error:
            print(f"order {next(iter(message.keys))}: not booked, {error}")
            return Outcome.ROLLBACK
        return Outcome.COMMIT

    def book_and_say_nothing(self, message: Message, transaction_id: str) -> Outcome:
        """Book the payment, and return no outcome, as if the process died after the booking."""
        self.book(message, transaction_id)
        return Outcome.UNKNOWN

    def booked(self, message: Received) -> Outcome:
        """Answer a check of the broker from the database, which also works after a restart."""
        with self.transaction() as database:
            found = database.execute("SELECT 1 FROM paid WHERE number = ?", (message.keys[0],)).fetchone()
        print(f"order {message.keys[0]}: the broker asks, and it is {'booked' if found else 'not booked'}")
        return Outcome.COMMIT if found else Outcome.ROLLBACK


async def play(nameserver: str, orders: Orders) -> bool:
    run = secrets.token_hex(4)
    plain, broken, silent = f"{run}-plain", f"{run}-broken", f"{run}-silent"
    shipped: set[str] = set()
    async with Admin(nameserver) as admin:
        await admin.topics.create(TOPIC)

    shipping = Consumer(nameserver, group="shipping", start="first")

    @shipping.on(TOPIC)
    async def ship(message: Received) -> None:
        if message.keys[0].startswith(run):
            print(f"order {message.keys[0]}: shipped")
            shipped.add(message.keys[0])

    async with shipping, TransactionProducer(nameserver, group="orders", check=orders.booked) as producer:
        await producer.transaction(Message(TOPIC, b"4200", keys=[plain]), orders.book)
        await producer.transaction(Message(TOPIC, b"-1", keys=[broken]), orders.book)
        await producer.transaction(Message(TOPIC, b"1700", keys=[silent]), orders.book_and_say_nothing)
        print(f"order {silent}: booked without an outcome; the broker will ask")
        try:
            async with asyncio.timeout(WAIT_S):
                while shipped != {plain, silent}:  # noqa: ASYNC110 — the handler above changes it
                    await asyncio.sleep(0.05)
        except TimeoutError:
            print(f"Only these orders were shipped: {sorted(shipped)}.")
    return shipped == {plain, silent}


def main() -> int:
    parser = argparse.ArgumentParser(description="Consumers see a message if, and only if, the database has committed.")
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        return 0 if asyncio.run(play(given.namesrv, Orders(Path(folder) / "orders.db"))) else 1


if __name__ == "__main__":
    sys.exit(main())
