"""A running broker whose disk stops returning a part of the log.

A file that is cut short behaves like a bad sector: a read returns too few bytes, and a mapping ends the process with SIGBUS.
"""

from __future__ import annotations

import os
from pathlib import Path

from skyrocket.protocol.command import Command
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.load import Wire, pull_request, send_request
from tests.support.processes.skyrocket_process import Skyrocket

BODY_BYTES = 100_000
SEGMENT_BYTES = 1_048_576
MESSAGES = 30
ATTEMPTS_MAX = 4  # of the first bad message; those behind it are skipped at once


def pull_bodies(answer: Command) -> list[int]:
    return [int(record.body[:6]) for record in iterate_records(answer.body)]


def pull_all(wire: Wire) -> tuple[list[int], list[str]]:
    """Pull the queue to its end as a consumer does. Return the numbers of the messages, and the errors on the way."""
    found: list[int] = []
    errors: list[str] = []
    offset = 0
    while offset < MESSAGES:
        answer = wire.ask(pull_request("orders", offset, max_msg_nums=8))
        if answer.code == ResponseCode.SYSTEM_ERROR:
            errors.append(answer.remark or "")
            assert len(errors) < ATTEMPTS_MAX, errors
            continue
        assert answer.code == ResponseCode.SUCCESS, answer
        found += pull_bodies(answer)
        offset = int(answer.fields["nextBeginOffset"])
    return found, errors


def test_pulls_behind_a_bad_sector_get_an_error_then_the_messages_behind_it(tmp_path: Path):
    with Skyrocket(tmp_path, {"mappedFileSizeCommitLog": SEGMENT_BYTES}) as server:
        with Wire(server.address) as wire:
            for number in range(MESSAGES):
                sent = wire.ask(send_request("orders", b"%06d" % number + bytes(BODY_BYTES - 6)))
                assert sent.code == ResponseCode.SUCCESS, sent
        server.stop()
        server.start()  # nothing of the log was written by this process
        with Wire(server.address) as wire:
            assert pull_all(wire) == (list(range(MESSAGES)), [])
        server.stop()
        server.start()  # what was pulled is no longer in its memory
        with Wire(server.address) as wire:
            os.truncate(server.data / "store" / "commitlog" / f"{0:020d}", SEGMENT_BYTES // 2)
            found, errors = pull_all(wire)
            assert server.process is not None
            assert server.process.poll() is None, "the broker ended"
            lost = sorted(set(range(MESSAGES)) - set(found))
            assert lost, "nothing was lost: the test did not reach the bad part"
            assert lost == list(range(lost[0], lost[-1] + 1))
            assert lost[-1] < SEGMENT_BYTES // BODY_BYTES + 1, "messages of other segments were lost"
            assert errors
            assert all("cannot be read" in error for error in errors)
            assert "DAMAGE" in server.log_tail(200)
            assert wire.ask(send_request("orders", b"and it goes on")).code == ResponseCode.SUCCESS
