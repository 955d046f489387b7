"""kill -9 of a real broker right after an administrator reset a group: the group is where it was reset to."""

from __future__ import annotations

from pathlib import Path

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from tests.support.processes.skyrocket_process import Skyrocket

RESETS = 3
QUEUES = 4


def test_a_group_that_was_reset_before_a_kill_stays_reset(tmp_path: Path):
    """A broker that forgot it would deliver messages that a drain has archived, and that its replay brings back."""
    with Skyrocket(tmp_path, {"flushConsumerOffsetInterval": 600_000}) as process:
        queues = [Queue("orders", "broker-a", number) for number in range(QUEUES)]
        with Admin(process.nameserver) as admin:
            admin.topics.create("orders", queues=QUEUES)
            admin.groups.create("billing")
        with Producer(process.nameserver) as producer:
            for queue in queues:
                producer.send_batch([Message("orders", b"%d" % number) for number in range(2 * RESETS)], queue=queue)
        for reset in range(RESETS):
            with Admin(process.nameserver) as admin:
                if reset % 2:
                    admin.offsets.reset("billing", "orders", "last")
                    wanted = 2 * RESETS
                else:
                    admin.offsets.set("billing", dict.fromkeys(queues, reset + 1))
                    wanted = reset + 1
            process.kill()
            process.start()
            with Admin(process.nameserver) as admin:
                assert {row.queue: row.offset for row in admin.offsets.get("billing", "orders")} == dict.fromkeys(queues, wanted)
