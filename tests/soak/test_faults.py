"""A broker that was killed on a full disk comes back for reading, and takes messages when there is space again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skyrocket.client import Admin, ClientError, Message, Producer
from tests.soak.faulty_disk import FULL
from tests.soak.processes import Servers
from tests.support.waiting import WAIT_S_MAX


async def test_broker_that_was_killed_on_a_full_disk_serves_reads_and_goes_on_by_itself(tmp_path: Path):
    servers = await asyncio.to_thread(Servers, tmp_path)
    try:
        broker = servers.brokers[0]
        async with Admin(servers.nameserver) as admin, Producer(servers.nameserver, retries=0) as producer:
            await admin.topics.create("orders", queues=1, brokers=[broker.broker_name])
            assert (await producer.send(Message("orders", b"before"))).is_safe
            broker.kill()
            broker.disk.set(FULL)
            await asyncio.to_thread(broker.start)
            assert [message.body async for message in admin.messages.read("orders")] == [b"before"]
            servers.heal()
            async with asyncio.timeout(WAIT_S_MAX):
                while True:
                    try:
                        assert (await producer.send(Message("orders", b"after"))).is_safe
                        break
                    except ClientError:
                        await asyncio.sleep(0.05)
            assert [message.body async for message in admin.messages.read("orders")][:2] == [b"before", b"after"]
        assert servers.ended() == []
        assert not [line for line in broker.complaints() if line.startswith("Traceback")]
    finally:
        servers.kill()
