"""Lets a broker's messages expire at once. Brokers otherwise delete them at a fixed hour of the day."""

from __future__ import annotations

import time

from skyrocket.client import sync as client
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.testing import sync as testing
from tests.support.apache.cluster import send_request

# Small files, kept for an hour. Each message is flushed at once: a file that is not on disk yet does not expire.
FORGETFUL = {"mappedFileSizeCommitLog": "65536", "fileReservedTime": "1", "flushDiskType": "SYNC_FLUSH"}


def expire(broker: testing.LocalBroker, broker_name: str = "broker-a") -> None:
    """Delete everything that is older than an hour: all messages so far, except those in the file that is being written."""
    broker.clock.advance(3 * 3_600_000)
    with client.Admin(broker.nameserver) as admin:
        hour = time.localtime().tm_hour  # the machine's clock decides when to delete, the broker's clock what has expired
        admin.cluster.update_config(broker_name, {"deleteWhen": f"{hour:02d}"})
    host, port = broker.address.split(":")
    answer = send_request((host, int(port)), Command(RequestCode.DELETE_EXPIRED_COMMITLOG, opaque=1))
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
