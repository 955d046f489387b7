"""Replicas that are behind, stand still or are missing: slaves of a master, and nodes of a DLedger group. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skyrocket.doctor.cluster.facts import BrokerFacts, ClusterFacts
from skyrocket.doctor.finding import Symptom, list_names
from skyrocket.report.texts import count_of, format_bytes, format_number

BEHIND_BYTES: Final = 256 * 1024 * 1024  # from here on Apache calls a slave out of sync (haMaxGapNotInSync)
BEHIND_ENTRIES: Final = 10_000
_LOG_END: Final = "commitLogMaxOffset"
_BEHIND: Final = "dledgerBehind_"  # rows of our leader's runtime information, one for each other node


def find_slaves_behind(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        for slave in broker.slaves or ():
            moved = _acknowledged_before(facts, broker, slave.address)
            stands = moved is not None and slave.behind_bytes > 0 and slave.acknowledged <= moved
            if slave.behind_bytes >= BEHIND_BYTES or stands:
                yield Symptom(
                    broker.about,
                    f"Slave {slave.address} of broker {broker.name} is behind{': it copies nothing' if stands else ''}. What it "
                    "lacks is lost with the master's disk, and with SYNC_MASTER sends wait for it.",
                    f"{format_bytes(slave.behind_bytes)} of the log are missing there"
                    f"{'; it confirmed nothing between the two looks' if stands else ''}.",
                    "Look at the slave: its log, its disk, its CPU, and the network to the master's port (haListenPort).",
                )


def _acknowledged_before(facts: ClusterFacts, broker: BrokerFacts, slave: str) -> int | None:
    before = facts.brokers_before.get(broker.address)
    known = () if before is None else before.slaves or ()
    return next((one.acknowledged for one in known if one.address == slave), None)


def find_missing_slaves(facts: ClusterFacts) -> Iterator[Symptom]:
    """Find slaves that nameservers know and that do not copy, and masters that need more slaves than they have."""
    for broker in facts.answering:
        if not broker.is_master or broker.slaves is None or broker.config.get("enableDLegerCommitLog") == "true":
            continue
        registered = [one for one in facts.brokers if one.name == broker.name and not one.is_master]
        is_sync = broker.config.get("brokerRole") == "SYNC_MASTER"
        needed = max(len(registered), 1 if is_sync else 0, int(broker.setting("inSyncReplicas", 1)) - 1)
        if len(broker.slaves) < needed:
            yield Symptom(
                broker.about,
                f"Broker {broker.name} has fewer slaves than it should."
                + (" It is a SYNC_MASTER: sends answer FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE." if is_sync else ""),
                f"{count_of(len(broker.slaves), 'slave')} of {needed} connected; registered: "
                f"{list_names(one.address for one in registered) or 'none'}.",
                "Start the slave; it goes on where it was. If it runs, it cannot reach the master: look at haMasterAddress, "
                "brokerIP2 and haListenPort.",
            )


def find_nodes_behind(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        before = facts.brokers_before.get(broker.address)
        for row, text in sorted(broker.runtime.items()):
            if not row.startswith(_BEHIND) or broker.runtime.get("dledgerRole") != "LEADER":
                continue
            node, behind, end = row.removeprefix(_BEHIND), int(broker.figure(row)), int(broker.figure("dledgerEndIndex"))
            stands = before is not None and row in before.runtime and _has_stood(before, row, end - behind)
            if behind >= BEHIND_ENTRIES or (behind > 0 and stands):
                yield Symptom(
                    broker.about,
                    f"Node {node} of the DLedger group {broker.name} is behind{': it takes nothing' if stands else ''}. If one "
                    "more node fails, the group may have no majority.",
                    f"It lacks {format_number(behind)} entries of {text and format_number(end + 1)}"
                    f"{', the same as at the first look or more' if stands else ''}.",
                    "Is the node running, and does it reach the leader's port (dLegerPeers)? A full disk stops a node, too.",
                )


def find_followers_behind(facts: ClusterFacts) -> Iterator[Symptom]:
    """Find followers by the ends of their logs, in groups whose leader does not tell how far they are: Apache's."""
    for leader in facts.answering:
        if not leader.is_master or leader.config.get("enableDLegerCommitLog") != "true" or "dledgerRole" in leader.runtime:
            continue
        for follower in facts.answering:
            if follower.name != leader.name or follower.is_master:
                continue
            behind = int(leader.figure(_LOG_END) - follower.figure(_LOG_END))
            before = facts.brokers_before.get(follower.address)
            stands = before is not None and behind > 0 and _stands_still(facts, leader, before, follower)
            if behind >= BEHIND_BYTES or stands:
                yield Symptom(
                    follower.about,
                    f"Node {follower.config.get('dLegerSelfId') or follower.address} of the DLedger group {leader.name} is "
                    "behind. If one more node fails, the group may have no majority.",
                    f"Its log ends {format_bytes(behind)} before the leader's{', and did not grow' if stands else ''}.",
                    "Does the node reach the leader's port (dLegerPeers)? A full disk stops a node, too.",
                )


def _stands_still(facts: ClusterFacts, leader: BrokerFacts, before: BrokerFacts, now: BrokerFacts) -> bool:
    """Whether a follower lacked something at the first look and got nothing until the second."""
    earlier = facts.brokers_before.get(leader.address)
    lacked = earlier is not None and earlier.figure(_LOG_END) > before.figure(_LOG_END)
    return lacked and now.figure(_LOG_END) <= before.figure(_LOG_END)


def _has_stood(before: BrokerFacts, row: str, has_index: int) -> bool:
    """Whether a node was behind at the first look, too, and has no more entries now."""
    behind = int(before.figure(row))
    return behind > 0 and has_index <= int(before.figure("dledgerEndIndex")) - behind


def find_missing_nodes(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        peers = [text.partition("-")[0] for text in broker.config.get("dLegerPeers", "").split(";") if text]
        if not broker.is_master or broker.config.get("enableDLegerCommitLog") != "true":
            continue
        nodes = [one for one in facts.brokers if one.name == broker.name]
        if len(nodes) < len(peers):
            running = [one.config.get("dLegerSelfId") or one.address for one in nodes]
            majority = len(peers) // 2 + 1
            left = "no further node may fail" if len(nodes) == majority else f"a majority is {majority}"
            yield Symptom(
                broker.about,
                f"The DLedger group {broker.name} has fewer nodes than its settings name: {left}.",
                f"{len(nodes)} of {len(peers)} nodes are registered: {list_names(sorted(running))}.",
                "Start the missing nodes. A node that runs and is not registered does not reach the nameserver.",
            )
