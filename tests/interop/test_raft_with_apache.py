"""Groups of our state machine and Apache's DLedger nodes elect, replicate, fail over and have equal ledgers."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocket.raft.config import GroupConfig, Timings
from skyrocket.raft.ports import Role
from tests.support.apache.packages import JAVA_SMALL, compiled, library
from tests.support.brokers.memory_ledger import MemoryNode
from tests.support.ports import free_port

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parent / "java" / "LedgerNode.java"
SEGMENT_BYTES = 8_192
HEARTBEAT_MS = 300
TIMINGS = Timings(heartbeat_ms=HEARTBEAT_MS)
LIMIT_S = 90.0


class ApacheNode:
    """A process with one of Apache's nodes."""

    def __init__(self, name: str, peers: str, home: Path, *, batches: bool) -> None:
        command = ["java", "-Xmx256m", *JAVA_SMALL, "-cp", f"{compiled(JAVA)}:{library()}/*", "LedgerNode"]
        command += ["g", peers, name, str(home), str(SEGMENT_BYTES), str(HEARTBEAT_MS), str(batches).lower()]
        log = (home / f"{name}.log").open("wb")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=home)
        log.close()

    async def ask(self, command: str) -> list[str]:
        """Send a command. Return the words of its answer; lines of Apache's log are passed over."""
        return await asyncio.to_thread(self._ask, command)

    def _ask(self, command: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        word = {"append": "appended"}.get(command.split(maxsplit=1)[0], command.split(maxsplit=1)[0])
        while line := self._process.stdout.readline().decode():
            if line.split()[:1] == [word]:
                return line.split()[1:]
        raise AssertionError("Apache's node has ended")

    async def leads(self) -> bool:
        return (await self.ask("state"))[0] == "LEADER"

    async def ledger(self) -> list[str]:
        return await self.ask("dump")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def ledger_of(node: MemoryNode) -> list[str]:
    return [f"{entry.term}:{entry.pos}:{entry.body.decode()}" for entry in node.entries]


async def eventually(is_so: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            found = is_so()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.05)
    raise AssertionError(what)


@asynccontextmanager
async def group(
    home: Path, ours: int, apaches: int, *, batches: bool
) -> AsyncIterator[tuple[list[MemoryNode], list[ApacheNode]]]:
    names = [f"n{number}" for number in range(ours + apaches)]
    ports = {name: free_port() for name in names}
    peers = ";".join(f"{name}-127.0.0.1:{port}" for name, port in ports.items())
    nodes: list[MemoryNode] = []
    theirs: list[ApacheNode] = []
    try:
        for name in names[ours:]:
            theirs.append(await asyncio.to_thread(ApacheNode, name, peers, home, batches=batches))
        for name in names[:ours]:
            config = GroupConfig(group="g", self_id=name, peer_ids=tuple(names), segment_bytes=SEGMENT_BYTES, timings=TIMINGS)
            nodes.append(MemoryNode(config, ports))
            await nodes[-1].start()
        yield nodes, theirs
    finally:
        for node in nodes:
            await node.stop()
        for apache in theirs:
            apache.kill()


async def find_leader(nodes: list[MemoryNode], theirs: list[ApacheNode]) -> MemoryNode | ApacheNode:
    async with asyncio.timeout(LIMIT_S):
        while True:
            for node in nodes:
                if node.raft.role is Role.LEADER and node.raft.can_propose:
                    return node
            for apache in theirs:
                if await apache.leads():
                    return apache
            await asyncio.sleep(0.05)


async def write(leader: MemoryNode | ApacheNode, bodies: list[str]) -> int:
    """Write through the leader. Return how many are acknowledged."""
    if isinstance(leader, ApacheNode):
        return sum([(await leader.ask(f"append {body}"))[0] == "200" for body in bodies])
    leader.propose([body.encode() for body in bodies])
    last = leader.raft.end_index
    await eventually(lambda: leader.committed >= last or leader.raft.role is not Role.LEADER, "the entries are committed")
    return len(bodies) if leader.committed >= last else 0


async def are_equal(nodes: list[MemoryNode], theirs: list[ApacheNode]) -> bool:
    ledgers = [ledger_of(node) for node in nodes] + [await apache.ledger() for apache in theirs]
    return all(ledger == ledgers[0] for ledger in ledgers) and all(node.committed == node.raft.end_index for node in nodes)


@pytest.mark.parametrize(("ours", "apaches", "batches"), [(1, 2, False), (2, 1, True)])
async def test_mixed_group_replicates_and_fails_over(tmp_path: Path, ours: int, apaches: int, batches: bool):
    async with group(tmp_path, ours, apaches, batches=batches) as (nodes, theirs):
        for turn in range(3):
            async with asyncio.timeout(LIMIT_S):
                while True:  # an election may follow the first one
                    leader = await find_leader(nodes, theirs)
                    if await write(leader, [f"{turn}-{number}-{'x' * 300}" for number in range(40)]) == 40:
                        break
            await eventually(lambda: are_equal(nodes, theirs), "the ledgers are equal")
            if turn == 0:
                leader = await find_leader(nodes, theirs)
                victim = leader if isinstance(leader, ApacheNode) else theirs[0]
                victim.kill()  # two nodes are left, and elect if the leader is gone
                theirs.remove(victim)
        assert not [sentence for node in nodes for sentence in node.refusals if "lost" not in sentence]


async def test_our_nodes_push_in_the_binary_form_to_each_other_and_in_json_to_apaches(tmp_path: Path):
    async with group(tmp_path, 2, 1, batches=False) as (nodes, theirs):
        async with asyncio.timeout(LIMIT_S):
            while not isinstance(leader := await find_leader(nodes, theirs), MemoryNode):
                leader.kill()  # ours are a majority
                theirs.clear()
        await write(leader, ["a"])
        await eventually(lambda: are_equal(nodes, theirs), "the ledgers are equal")
        await eventually(lambda: leader.binary_pushes > 0, "a binary push was sent")
