"""Client and broker draw random numbers of their own."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from skyrocket.client.sync import Message, Producer
from skyrocket.testing import sync

DRAWN = "a topic of a user's test"


def test_a_seed_of_the_application_gives_the_same_numbers_beside_client_and_broker(tmp_path: Path):
    random.seed(DRAWN)
    expected = random.random()
    random.seed(DRAWN)
    with sync.LocalBroker(folder=tmp_path) as broker, Producer(broker.nameserver) as producer:
        broker.create_topic("orders")
        producer.send(Message("orders", b"x"))
    assert random.random() == expected


def test_forked_processes_draw_different_numbers():
    script = """
import os
from skyrocket.chance import CHANCE
for _ in range(2):
    if os.fork() == 0:
        os.write(1, f"{CHANCE.random()}\\n".encode())
        os._exit(0)
    os.wait()
"""
    drawn = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert len(drawn) == 2
    assert drawn[0] != drawn[1]
