"""kill -9 of a real broker right after a topic was deleted: the topic stays deleted, and the log is not read again for it."""

from __future__ import annotations

import re
from pathlib import Path

from skyrocket.net.dialer import Dialer
from skyrocket.protocol.headers import DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.support.brokers.running_broker import RunningBroker, records
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import wait_until

KILLS = 5
MESSAGES = 400


class RemoteBroker(RunningBroker):
    """Requests to a broker in another process."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.dialer = Dialer()

    @property
    def address(self) -> str:
        return self._address


async def test_a_topic_that_was_deleted_before_a_kill_stays_deleted(tmp_path: Path):
    with Skyrocket(tmp_path) as process:
        for kill in range(KILLS):
            remote = RemoteBroker(process.address)
            for number in range(MESSAGES):
                await remote.send("orders", b"%d" % number, queue_id=number % 4)
            checkpoint = process.data / "store/checkpoint"
            before = checkpoint.stat().st_mtime_ns
            await remote.send("others", b"%d" % kill)
            wait_until(lambda c=checkpoint, b=before: c.stat().st_mtime_ns > b, "a checkpoint follows")
            deleted = await remote.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="orders"))
            process.kill()
            assert deleted.code == 0
            await remote.dialer.close()
            process.start()
            remote = RemoteBroker(process.address)
            assert not (process.data / "store/consumequeue/orders").exists()
            assert len(records(await remote.pull("others", 0))) == kill + 1
            assert (await remote.send("orders", b"new")).fields["queueOffset"] == "0"
            await remote.dialer.close()
        read_again = [int(count) for count in re.findall(r"(\d+) messages were read again", process.log_tail(1_000))]
        assert len(read_again) == KILLS
        assert read_again[-1] < 2 * MESSAGES, "recovery reads what is behind the checkpoint, not the whole log"
