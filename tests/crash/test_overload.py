"""Flow control of a running broker: large reads, pauses of the machine and real overload.

A load that the broker works through is never refused. One that it does not work through is refused with the limit, and a second
after its end the broker serves again.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.batch_load import Batches, BatchLoad, run_batches
from tests.support.processes.cpu_pressure import read_cpu_wait_s
from tests.support.processes.load import Wire, send_request
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import wait_until

TOPIC = "Loaded"
LARGE_READS = Batches(in_flight=64)


@contextmanager
def broker(home: Path, **settings: object) -> Iterator[Skyrocket]:
    with Skyrocket(home, {"mappedFileSizeCommitLog": 1 << 28, **settings}) as started, Wire(started.address) as wire:
        assert wire.ask(send_request(TOPIC, b"creates the topic")).code == ResponseCode.SUCCESS
        yield started
        started.stop()


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Other processes that use all the CPU time they get."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def test_batches_of_one_large_read_behind_another_are_all_served(tmp_path: Path):
    with broker(tmp_path) as started:
        assert run_batches(started.address, TOPIC, 4, LARGE_READS, 4_000).refusals == []


def test_batches_are_all_served_while_others_use_the_machine(tmp_path: Path):
    with broker(tmp_path) as started, busy_machine(3 * (os.cpu_count() or 1)):
        assert run_batches(started.address, TOPIC, 4, LARGE_READS, 1_500).refusals == []


def test_broker_that_was_stopped_for_a_while_refuses_nothing(tmp_path: Path):
    with broker(tmp_path) as started:
        assert started.process is not None
        load = BatchLoad(started.address, TOPIC, 4, LARGE_READS, 1 << 30)
        load.start()
        for _ in range(2):
            served = load.answered
            wait_until(lambda served=served: load.answered > served + 300, "the broker serves")
            started.process.send_signal(signal.SIGSTOP)
            time.sleep(0.7)  # a pause, longer than any send may wait
            started.process.send_signal(signal.SIGCONT)
        served = load.answered
        wait_until(lambda: load.answered > served + 300, "the broker serves again")
        load.stop()
        assert load.refusals == []


def test_overload_is_refused_with_its_limit_and_ends_with_the_load(tmp_path: Path):
    with broker(tmp_path, waitTimeMillsInSendQueue=20) as started, Wire(started.address) as wire:
        load = BatchLoad(started.address, TOPIC, 150, Batches(in_flight=32, body_bytes=64), 1 << 30)
        load.start()
        wait_until(lambda: len(load.refusals) > 100, lambda: f"{load.answered} requests served and none refused")
        refused_after = load.answered
        wait_until(lambda: load.answered - len(load.refusals) > refused_after, "the broker serves others")
        load.stop()
        ended, waited_s = time.monotonic(), read_cpu_wait_s()
        while (answer := wire.ask(send_request(TOPIC, b"afterwards"))).code == ResponseCode.SYSTEM_BUSY:
            assert time.monotonic() - ended < 1 + read_cpu_wait_s() - waited_s, answer.remark
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert re.search(
            r'"remark":"The broker is busy: this request has waited for \d+ ms; waitTimeMillsInSendQueue allows 20 ms\."',
            load.refusals[0],
        )
