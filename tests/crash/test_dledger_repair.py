"""Three nodes, one of which finds its files damaged: it repairs them from the others, and says so.

Bits are flipped, pages zeroed, files and directories deleted. Afterwards the node's files are equal to the others', byte for
byte, and consumers read everything from it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from skyrocket.cli.files.store import app as store_commands
from skyrocket.protocol.command import encode_command
from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.processes.load import Wire, send_request
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import WAIT_S_MAX, wait_until

TOPIC = "Damaged"
QUEUES = 4
COUNT = 3_000
AT_ONCE = 100
SEGMENT_BYTES = 1024 * 1024
SETTINGS = {"defaultTopicQueueNums": QUEUES, "mappedFileSizeCommitLog": SEGMENT_BYTES, "scrubBytesPerSecond": 2**30}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[DLedgerGroup]:
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        DLedgerGroup(tmp_path / "group", names.nameserver, settings=SETTINGS) as started,
    ):
        yield started


def body_of(number: int) -> bytes:
    return b"%06d" % number + bytes([number % 251]) * 800


def fill(group: DLedgerGroup) -> str:
    """Send messages to all queues, again if a busy machine deposes the leader. Return the leader."""
    first = 0
    until = time.monotonic() + WAIT_S_MAX
    while first < COUNT:
        leader = group.wait_for_leader()
        with Wire(group.address(leader)) as wire:
            codes = {ResponseCode.SUCCESS.value}
            while first < COUNT and codes == {ResponseCode.SUCCESS}:
                numbers = range(first, first + AT_ONCE)
                requests = [send_request(TOPIC, body_of(number), number % QUEUES, number + 1) for number in numbers]
                wire.tell(b"".join(map(encode_command, requests)))
                codes = {wire.answer().code for _ in requests}
                first += AT_ONCE if codes == {ResponseCode.SUCCESS} else 0
        assert time.monotonic() < until, group.tails()
    wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
    return group.wait_for_leader()


def ledger(group: DLedgerGroup, node: str) -> Path:
    return group.home / node / "store" / f"dledger-{node}"


def bytes_of(group: DLedgerGroup, node: str) -> dict[str, bytes]:
    """The files of a node's ledger, without zeros behind their ends."""
    found = [path for kind in ("data", "index") for path in (ledger(group, node) / kind).glob("*")]
    contents = {f"{path.parent.name}/{path.name}": beginning(path).rstrip(b"\0") for path in found}
    return {name: content for name, content in contents.items() if content}  # a file may be created ahead of time


def beginning(path: Path) -> bytes:
    """Index files have their full size from the start."""
    with path.open("rb") as file:
        return file.read(SEGMENT_BYTES)


def node_of(group: DLedgerGroup, node: str) -> SkyrocketBroker:
    process = group.running[node]
    assert isinstance(process, SkyrocketBroker)
    return process


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip_bits(data: Path, _index: Path) -> None:
    rng = Random(5)
    for path in sorted(data.iterdir())[:2]:
        content = path.read_bytes()
        for _ in range(5):
            at = rng.randrange(SEGMENT_BYTES * 9 // 10)
            overwrite(path, at, bytes([content[at] ^ 1 << rng.randrange(8)]))


def zero_a_page(data: Path, _index: Path) -> None:
    overwrite(sorted(data.iterdir())[1], 4096 * 20, bytes(4096))


def zero_the_end(data: Path, _index: Path) -> None:
    """The last entries of a file, and its padding."""
    overwrite(sorted(data.iterdir())[1], SEGMENT_BYTES - 8192, bytes(8192))


def zero_a_page_of_the_open_file(data: Path, _index: Path) -> None:
    paths = [path for path in sorted(data.iterdir()) if any(path.read_bytes())]
    overwrite(paths[-1], 4096, bytes(4096))


def lose_a_data_file(data: Path, _index: Path) -> None:
    sorted(data.iterdir())[1].unlink()


def lose_the_last_data_file(data: Path, _index: Path) -> None:
    for path in sorted(data.iterdir())[2:]:
        path.unlink()


def lose_the_index(_data: Path, index: Path) -> None:
    shutil.rmtree(index)


def lose_the_index_and_flip_bits(data: Path, index: Path) -> None:
    flip_bits(data, index)
    shutil.rmtree(index)


DAMAGES = [
    flip_bits,
    zero_a_page,
    zero_the_end,
    zero_a_page_of_the_open_file,
    lose_a_data_file,
    lose_the_last_data_file,
    lose_the_index,
    lose_the_index_and_flip_bits,
]


def check_repaired(group: DLedgerGroup, node: str, other: str) -> None:
    def is_equal() -> bool:
        return bytes_of(group, node) == bytes_of(group, other)

    wait_until(is_equal, group.tails)
    expected = group.read_all(other, TOPIC, QUEUES)
    assert {body for bodies in expected.values() for body in bodies} == set(map(body_of, range(COUNT)))
    wait_until(lambda: group.read_all(node, TOPIC, QUEUES) == expected, group.tails)


def test_a_node_repairs_its_files_from_the_others_after_every_kind_of_damage(group: DLedgerGroup):
    leader = fill(group)
    node, other = (name for name in group.kinds if name != leader)
    for number, damage in enumerate(DAMAGES):
        process = node_of(group, node)
        end: Callable[[], None] = process.kill if number % 2 else process.stop
        end()
        damage(ledger(group, node) / "data", ledger(group, node) / "index")
        assert bytes_of(group, node) != bytes_of(group, other), damage.__name__
        group.start(node)
        try:
            check_repaired(group, node, other)
        except AssertionError as error:
            raise AssertionError(f"{damage.__name__}: {error}") from error
    printed = node_of(group, node).log_tail(2_000)
    assert "DAMAGE: entries" in printed
    assert "Repaired: entries" in printed


def test_store_repair_makes_a_directory_that_the_node_starts_from_after_every_kind_of_damage(group: DLedgerGroup):
    leader = fill(group)
    node, other = (name for name in group.kinds if name != leader)
    store = group.home / node / "store"
    for number, damage in enumerate(DAMAGES):
        process = node_of(group, node)
        end: Callable[[], None] = process.kill if number % 2 else process.stop
        end()
        damage(ledger(group, node) / "data", ledger(group, node) / "index")
        shutil.rmtree(store / "consumequeue" / TOPIC / "1")
        done = CliRunner().invoke(store_commands, ["repair", str(store), "--yes"])
        assert done.exit_code in {0, 1}, f"{damage.__name__}: {done.output}"
        assert CliRunner().invoke(store_commands, ["verify", str(store)]).exit_code == done.exit_code, damage.__name__
        group.start(node)
        try:
            check_repaired(group, node, other)
        except AssertionError as error:
            raise AssertionError(f"{damage.__name__}: {done.output} {error}") from error
        for aside in store.glob("repaired-*"):
            shutil.rmtree(aside)


def test_damage_is_found_and_repaired_while_a_node_runs_also_while_it_leads(group: DLedgerGroup):
    fill(group)
    for node in group.kinds:  # what a process has written itself, it reads from memory
        node_of(group, node).stop()
        group.start(node)
    leader = group.wait_for_leader()
    follower = next(name for name in group.kinds if name != leader)
    for node in (follower, leader):
        good = bytes_of(group, node)
        zero_a_page(ledger(group, node) / "data", ledger(group, node) / "index")
        assert bytes_of(group, node) != good
        assert group.read_all(node, TOPIC, QUEUES)[0], "a read finds it, before the scrub comes by"
        check_repaired(group, node, next(name for name in group.kinds if name != node))
        process = node_of(group, node)
        wait_until(lambda process=process: "Repaired: entries" in process.log_tail(200), group.tails)  # type: ignore[misc]
