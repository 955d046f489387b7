"""A group whose old files are deleted under load, on the leader and on the followers, and a follower that was away for longer.

Nodes keep files of 64 KiB for seconds instead of hours (`hurried_node`). The follower that comes back finds that the leader does
not have the entries any more that would come next: it begins anew with the leader's first ones, and can lead afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.failover.hurried_node import KEPT_S, HurriedBroker
from tests.failover.limits import ROUNDS
from tests.support import failover_report as report
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.processes.load import Wire, pull_request, records
from tests.support.processes.numbered_load import NumberedLoad
from tests.support.waiting import wait_until

TOPIC = "Expiring"
QUEUES = 4
FILE_BYTES = 65_536
SETTINGS = {"defaultTopicQueueNums": QUEUES, "mappedFileSizeCommitLog": FILE_BYTES, "fileReservedTime": 1}


def first_byte(group: DLedgerGroup, node: str) -> int:
    """Where the log of a node begins."""
    return min(file_starts(group, node))


def file_starts(group: DLedgerGroup, node: str) -> list[int]:
    return [int(path.name) for path in (group.home / node / "store" / f"dledger-{node}" / "data").glob("[0-9]" * 20)]


def expire(group: DLedgerGroup, nodes: Iterable[str]) -> None:
    """Let nodes look for expired files now, whatever the hour: they do so every ten seconds by themselves."""
    hour = f"deleteWhen={datetime.now(UTC).astimezone().hour:02}\n".encode()
    for node in nodes:
        with Wire(group.address(node)) as wire:
            assert wire.ask(Command(RequestCode.UPDATE_BROKER_CONFIG, body=hour)).code == ResponseCode.SUCCESS
            assert wire.ask(Command(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == ResponseCode.SUCCESS


def wait_for_expiry(group: DLedgerGroup, nodes: list[str], least: int) -> None:
    """Wait until the logs of nodes begin behind a position."""

    def has_expired() -> bool:
        expire(group, nodes)
        return all(first_byte(group, node) > least for node in nodes)

    wait_until(has_expired, lambda: f"{ {node: first_byte(group, node) for node in nodes} }\n{group.tails()}", every_s=0.2)


def test_old_files_go_under_load_and_a_follower_that_was_away_for_longer_comes_back(tmp_path: Path, nameserver: str):
    with DLedgerGroup(tmp_path / "group", nameserver, settings=SETTINGS, program=HurriedBroker) as group:
        group.wait_for_leader()
        load = NumberedLoad(nameserver, TOPIC, pause_s=0.002, bytes_least=1_000)
        try:
            load.wait_for(100, group)
            wait_for_expiry(group, list(group.kinds), 0)
            for _ in range(ROUNDS):
                leader = group.wait_for_leader()
                away, other = (node for node in group.kinds if node != leader)
                group.kill(away)
                left_at = max(file_starts(group, away)) + FILE_BYTES
                wait_for_expiry(group, [leader, other], left_at)
                group.start(away)
                load.wait_for_more(50, group)
                wait_until(lambda: have_common_files(group), group.describe_ledgers)
                assert first_byte(group, away) > left_at, "entries are missing between what it had and what the leader had"
                wait_until(lambda away=away: is_led_by(group, away), group.tails)
                load.wait_for_more(50, group)
        finally:
            load.stop()
        wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
        check_equal(group)
        begins = check_kept(group, load)
    text = f"{len(load.acknowledged)} acknowledged, {begins} of them expired after {KEPT_S} s; a follower was away for longer"
    report.add("retention", f"{ROUNDS} times; {text}, came back and led")


def is_led_by(group: DLedgerGroup, node: str) -> bool:
    """Whether a node leads. If it does not, it is asked to: that is refused while it is behind."""
    leader = group.wait_for_leader()
    return leader == node or (group.transfer(leader, node) and group.wait_for_leader(other_than=leader) == node)


def have_common_files(group: DLedgerGroup) -> bool:
    """Whether all logs have a file in common: a node that was away has begun anew."""
    return bool(set.intersection(*(set(file_starts(group, node)) for node in group.kinds)))


def check_equal(group: DLedgerGroup) -> None:
    """What two nodes have of the ledger is equal. One may have deleted more than the other."""
    ledgers = [{entry.index: entry for entry in group.entries(node)} for node in group.kinds]
    shared = set.intersection(*(set(ledger) for ledger in ledgers))
    assert len(shared) > 1
    for index in shared:
        assert ledgers[0][index] == ledgers[1][index] == ledgers[2][index]


def check_kept(group: DLedgerGroup, load: NumberedLoad) -> int:
    """What has not expired lies where its answer said. Return how many messages have expired at the leader."""
    leader, expired = group.wait_for_leader(), 0
    with Wire(group.address(leader)) as wire:
        for queue_id in range(QUEUES):
            answer = wire.ask(pull_request(TOPIC, 0, queue_id=queue_id))
            begin = int(answer.fields["minOffset"])
            kept: list[bytes] = []
            while (answer := wire.ask(pull_request(TOPIC, begin + len(kept), queue_id=queue_id))).code == ResponseCode.SUCCESS:
                kept.extend(record.body for record in records(answer))
            assert kept, f"queue {queue_id} of {leader} begins at {begin} and gives nothing: {answer.code} {answer.remark}"
            expired += begin
            for body, (own_queue, offset) in load.acknowledged.items():
                if own_queue == queue_id and offset >= begin:
                    assert kept[offset - begin : offset - begin + 1] == [body], f"{body!r} is not at {offset} of queue {queue_id}"
    assert expired, "nothing has expired"
    return expired
