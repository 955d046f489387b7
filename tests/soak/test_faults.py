"""A broker that was killed on a full disk comes back when there is space again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.soak.clock import Clock
from tests.soak.faults import Faults
from tests.soak.faulty_disk import FULL
from tests.soak.processes import Servers
from tests.support.waiting import WAIT_S_MAX


async def test_broker_that_a_full_disk_keeps_from_starting_is_started_again(tmp_path: Path):
    servers = await asyncio.to_thread(Servers, tmp_path)
    try:
        faults, broker = Faults(servers, Clock(1.0, 1)), servers.brokers[0]
        broker.kill()
        broker.disk.set(FULL)
        starting = asyncio.create_task(faults.start_again(broker))
        async with asyncio.timeout(WAIT_S_MAX):
            while not faults.counts["starts refused by a full disk"]:  # noqa: ASYNC110 — the broker is another process
                await asyncio.sleep(0.05)
            servers.heal()
            await starting
        assert servers.ended() == []
        assert not [line for line in broker.complaints() if line.startswith("Traceback")]
    finally:
        servers.kill()
