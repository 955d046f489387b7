"""What is wrong at a broker: load, disk, clock, damage. Pure. Names of figures and settings are Apache's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from skyrocket.doctor.cluster.facts import BrokerFacts, ClusterFacts
from skyrocket.doctor.disk_levels import (
    CLEAN_DEFAULT,
    CLEAN_SETTING,
    REFUSE_DEFAULT,
    REFUSE_SETTING,
    DiskLevels,
    find_early_delete,
    find_filling_disk,
    find_full_disk,
)
from skyrocket.doctor.finding import Symptom, list_names
from skyrocket.report.texts import count_of, format_duration, format_number

REFUSED: Final = "busyRefusals"  # a row of our broker's runtime information: requests answered SYSTEM_BUSY since its start
CLOCK_SKEW_MS: Final = 5_000
BORN_AHEAD_MS: Final = 2_000  # a message that was stored so long before it was sent
QUEUE_FULL_SHARE: Final = 0.8


class WaitLimit(NamedTuple):
    """A wait that a broker reports, and the setting above which it answers SYSTEM_BUSY."""

    figure: str
    setting: str
    default_ms: int


# Apache's defaults, for brokers that do not tell the setting.
WAIT_LIMITS: Final = (
    WaitLimit("sendThreadPoolQueueHeadWaitTimeMills", "waitTimeMillsInSendQueue", 200),
    WaitLimit("pullThreadPoolQueueHeadWaitTimeMills", "waitTimeMillsInPullQueue", 5_000),
    WaitLimit("pageCacheLockTimeMills", "osPageCacheBusyTimeOutMills", 1_000),
)
THREAD_POOLS: Final = ("send", "pull", "query")


def find_busy_brokers(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        evidence = [*_refusals(broker, facts), *_waits(broker), *_full_queues(broker)]
        if evidence:
            yield Symptom(
                broker.about,
                f"Broker {broker.name} has more work than it does: requests wait too long and are answered SYSTEM_BUSY.",
                " ".join(evidence),
                "Clients try again by themselves. One busy core: spread topics over more brokers. A slow disk: look at iostat, "
                "and whether another program writes to it. Neither: the machine has other work, or too little memory.",
            )


def _refusals(broker: BrokerFacts, facts: ClusterFacts) -> Iterator[str]:
    refused = int(broker.figure(REFUSED))
    before = facts.brokers_before.get(broker.address)
    grown = refused - int(before.figure(REFUSED)) if before is not None else 0
    if grown > 0:
        yield f"It refused {count_of(grown, 'request')} between the two looks, {format_number(refused)} since its start."
    elif refused:
        yield f"It has refused {count_of(refused, 'request')} since its start, and none between the two looks."


def _waits(broker: BrokerFacts) -> Iterator[str]:
    for limit in WAIT_LIMITS:
        waited, most = broker.figure(limit.figure), broker.setting(limit.setting, limit.default_ms)
        if waited >= most > 0:
            yield f"{limit.figure} is {format_number(waited)}; {limit.setting} allows {format_number(most)}."


def _full_queues(broker: BrokerFacts) -> Iterator[str]:
    for pool in THREAD_POOLS:
        size, room = broker.figure(f"{pool}ThreadPoolQueueSize"), broker.figure(f"{pool}ThreadPoolQueueCapacity")
        if room and size >= QUEUE_FULL_SHARE * room:
            yield f"{format_number(size)} requests wait in the {pool} queue, which has room for {format_number(room)}."


# --- disk


def _disk_of(broker: BrokerFacts) -> DiskLevels:
    return DiskLevels(
        100 * max(broker.figure("commitLogDiskRatio"), broker.figure("consumeQueueDiskRatio")),
        broker.setting(CLEAN_SETTING, CLEAN_DEFAULT),
        broker.setting(REFUSE_SETTING, REFUSE_DEFAULT),
    )


def find_full_disks(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        yield from find_full_disk(broker.about, _disk_of(broker))


def find_early_deletes(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        yield from find_early_delete(broker.about, _disk_of(broker))


def find_filling_disks(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        yield from find_filling_disk(broker.about, _disk_of(broker))


# --- clocks


def find_broker_clocks(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        ahead_ms = broker.clock_ahead_ms
        if ahead_ms is not None and abs(ahead_ms) >= CLOCK_SKEW_MS:
            yield Symptom(
                broker.about,
                f"The clock of broker {broker.name} is {'ahead of' if ahead_ms > 0 else 'behind'} this machine's.",
                f"By {format_duration(abs(ahead_ms))}: bootTimestamp and uptime of the broker, beside the time here.",
                "Synchronize both machines (chronyc tracking, timedatectl). Timed messages, retries, retention and searches by "
                "time follow the broker's clock.",
            )


def find_producer_clocks(facts: ClusterFacts) -> Iterator[Symptom]:
    for topic in facts.topics:
        ahead = [sample for sample in topic.samples if sample.born_ms - sample.stored_ms >= BORN_AHEAD_MS]
        if ahead:
            worst = max(ahead, key=lambda sample: sample.born_ms - sample.stored_ms)
            hosts = {sample.born_host for sample in ahead}
            yield Symptom(
                f"topic {topic.topic}",
                f"Messages of topic '{topic.topic}' were stored before they were sent: clocks of producers and brokers differ.",
                f"{len(ahead)} of the newest {len(topic.samples)} messages, by up to "
                f"{format_duration(worst.born_ms - worst.stored_ms)}; from {list_names(sorted(hosts))}.",
                "Synchronize these machines and the brokers (chronyc tracking, timedatectl). Latencies in traces and reports are "
                "wrong until then.",
            )


# --- damage


def find_damaged_logs(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.answering:
        ranges, entries = int(broker.figure("scrubDamagedRanges")), int(broker.figure("dledgerDamagedEntries"))
        if ranges or entries:
            found = [f"{count_of(ranges, 'damaged range')} in the log"] if ranges else []
            found += [f"{format_number(entries)} entries that no other node has given yet"] if entries else []
            yield Symptom(
                broker.about,
                f"The log of broker {broker.name} is damaged. Damaged messages are not served.",
                f"{' and '.join(found)}, found by scrubbing.",
                "skyrocket store verify DIR lists the places. A DLedger node repairs itself from the others; build a slave again "
                "from its master. Replace the disk.",
            )
