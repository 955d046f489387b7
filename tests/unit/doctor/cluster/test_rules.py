"""Rules about a cluster that need no cluster: figures that a broker reports in bad times, and when a rule is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyrocket.doctor.backlog.look import GroupLook
from skyrocket.doctor.cluster.facts import (
    BrokerFacts,
    ClusterFacts,
    GroupFacts,
    MessageSample,
    NameserverFacts,
    SlaveFacts,
    SubscriptionFacts,
    TopicFacts,
    TopicPlace,
)
from skyrocket.doctor.cluster.rules import RULES, diagnose_cluster
from skyrocket.doctor.finding import Diagnosis
from skyrocket.report.texts import format_bytes, suggest_name

NOW_MS = 1_800_000_000_000
SOUND = BrokerFacts(
    "Lab",
    "broker-a",
    0,
    "10.0.0.1:10911",
    asked_ms=NOW_MS,
    runtime={
        "bootTimestamp": str(NOW_MS - 90_061_000),
        "runtime": "[ 1 days, 1 hours, 1 minutes, 1 seconds ]",
        "commitLogDiskRatio": "0.34",
        "consumeQueueDiskRatio": "0.34",
        "sendThreadPoolQueueSize": "3",
        "sendThreadPoolQueueCapacity": "10000",
        "sendThreadPoolQueueHeadWaitTimeMills": "0",
        "pageCacheLockTimeMills": "0",
    },
    config={"autoCreateTopicEnable": "false", "brokerPermission": "6", "waitTimeMillsInSendQueue": "200"},
    slaves=(),
)
NAMES = NameserverFacts("10.0.0.9:9876", frozenset({("broker-a", SOUND.address)}))


def diagnose(broker: BrokerFacts = SOUND, before: BrokerFacts | None = None, **facts: object) -> list[Diagnosis]:
    earlier = {} if before is None else {before.address: before}
    return diagnose_cluster(ClusterFacts([NAMES], [broker], earlier, **facts))  # type: ignore[arg-type]


def with_rows(broker: BrokerFacts = SOUND, **rows: str) -> BrokerFacts:
    return replace(broker, runtime={**broker.runtime, **rows})


def test_a_sound_broker_gets_no_diagnosis():
    assert diagnose() == []
    assert diagnose_cluster(ClusterFacts()) == []


@pytest.mark.parametrize(
    ("rows", "evidence"),
    [
        ({"sendThreadPoolQueueHeadWaitTimeMills": "450"}, "waitTimeMillsInSendQueue allows 200."),
        ({"pageCacheLockTimeMills": "1200"}, "osPageCacheBusyTimeOutMills allows 1,000."),
        ({"sendThreadPoolQueueSize": "9100"}, "9,100 requests wait in the send queue, which has room for 10,000."),
        ({"busyRefusals": "7"}, "It has refused 7 requests since its start"),
    ],
)
def test_figures_of_a_busy_broker(rows: dict[str, str], evidence: str):
    (found,) = diagnose(with_rows(**rows))
    assert found.rule == "broker-busy"
    assert evidence in found.evidence


def test_refusals_between_two_looks_are_told():
    (found,) = diagnose(with_rows(busyRefusals="9"), with_rows(busyRefusals="4"))
    assert found.evidence == "It refused 5 requests between the two looks, 9 since its start."


@pytest.mark.parametrize(("ahead_ms", "is_told"), [(4_000, False), (-4_000, False), (6_000, True), (-6_000, True)])
def test_a_clock_counts_from_five_seconds_on(ahead_ms: int, is_told: bool):
    found = diagnose(replace(SOUND, asked_ms=NOW_MS - ahead_ms))
    assert [one.rule for one in found] == (["broker-clock"] if is_told else [])


def test_a_broker_that_does_not_tell_its_time_has_no_clock():
    assert replace(SOUND, runtime={}).clock_ahead_ms is None


def test_scrubbing_that_found_damage():
    (found,) = diagnose(with_rows(scrubDamagedRanges="2"))
    assert (found.rule, found.evidence) == ("log-damaged", "2 damaged ranges in the log, found by scrubbing.")


def slave(behind: int, acknowledged: int = 100) -> BrokerFacts:
    return replace(SOUND, slaves=[SlaveFacts("10.0.0.2:40000", acknowledged, behind)])


def test_a_slave_that_catches_up_is_not_behind():
    assert diagnose(slave(5_000, 900), slave(9_000, 100)) == []
    assert diagnose(slave(5_000, 900)) == [], "one look does not show whether it moves"
    (found,) = diagnose(slave(5_000, 100), slave(4_000, 100))
    assert found.rule == "slave-behind"
    (found,) = diagnose(slave(300 * 1024 * 1024, 900), slave(1, 100))
    assert found.evidence == "300.0 MiB of the log are missing there."


def test_a_master_that_needs_a_slave():
    lonely = replace(SOUND, config={**SOUND.config, "brokerRole": "SYNC_MASTER"})
    (found,) = diagnose(lonely)
    assert (found.rule, found.evidence) == ("slave-missing", "0 slaves of 1 connected; registered: none.")


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("127.0.0.1:10911", "each client that gets it asks its own machine"),
        ("0.0.0.0:10911", "no address that anybody can connect to"),
        ("172.17.0.2:10911", "inside a container"),
        ("broker.example:10911", ""),
    ],
)
def test_an_unreachable_address_is_explained(address: str, hint: str):
    found = diagnose(BrokerFacts("Lab", "broker-a", 0, address, error="No connection."))
    (unreachable,) = (one for one in found if one.rule == "broker-unreachable")
    assert unreachable.evidence.startswith("No connection.")
    assert hint in unreachable.evidence


def test_a_broker_without_a_master():
    (found,) = diagnose(replace(SOUND, broker_id=1))
    assert found.rule == "no-master"


def test_a_topic_that_brokers_have_and_nameservers_do_not():
    (found,) = diagnose(topics=[TopicFacts("orders", holders=["broker-a"])])
    assert found.rule == "topic-missing"
    assert found.evidence == "The topic is at broker-a."


def test_a_whole_broker_that_may_not_be_written():
    closed = replace(SOUND, config={**SOUND.config, "brokerPermission": "4"})
    (found,) = diagnose(closed, topics=[TopicFacts("orders", [TopicPlace("broker-a", "Lab", 4, 4, "r")])])
    assert found.rule == "topic-unwritable"
    assert "brokerPermission of broker-a is 4." in found.evidence


def test_a_topic_of_another_cluster_is_not_unbalanced():
    other = replace(SOUND, cluster="Other", name="broker-b", address="10.0.0.3:10911")
    names = replace(NAMES, brokers=frozenset({("broker-a", SOUND.address), ("broker-b", other.address)}))
    topics = [TopicFacts("orders", [TopicPlace("broker-a", "Lab", 4, 4, "rw")])]
    assert diagnose_cluster(ClusterFacts([names], [SOUND, other], topics=topics)) == []


SUBSCRIBED = SubscriptionFacts("orders", "refund", "TAG", "m1")


@pytest.mark.parametrize(
    ("tags", "has_more", "rule"),
    [
        (["paid"] * 5, False, "wrong-tag"),  # these are all messages
        (["paid"] * 64, True, "tag-not-seen"),  # older ones may have the tag
        (["refunds"] * 64, True, "wrong-tag"),  # a typing mistake
        (["paid", "refund"] * 32, True, None),
        (["paid"] * 4, False, None),  # too few to tell
    ],
)
def test_a_tag_that_is_wrong_or_only_rare(tags: list[str], has_more: bool, rule: str | None):
    samples = [MessageSample(tag, NOW_MS, NOW_MS, "10.0.0.5:1") for tag in tags]
    topic = TopicFacts("orders", [TopicPlace("broker-a", "Lab", 4, 4, "rw")], samples=samples, has_more=has_more)
    group = GroupFacts("coupons", GroupLook("coupons"), subscriptions=[SUBSCRIBED])
    assert [one.rule for one in diagnose(topics=[topic], groups=[group])] == ([rule] if rule else [])


def test_every_rule_is_there_once():
    assert len({rule.find for rule in RULES}) == len(RULES)


def test_a_follower_of_apaches_group_whose_log_does_not_grow():
    config = {"enableDLegerCommitLog": "true", "dLegerPeers": "n0-a:1;n1-b:1", "dLegerSelfId": "n1"}

    def node(broker_id: int, end: int) -> BrokerFacts:
        place = replace(SOUND, broker_id=broker_id, address=f"10.0.0.{broker_id}:10911", slaves=None)
        return replace(with_rows(place, commitLogMaxOffset=str(end)), config={**config, "dLegerSelfId": f"n{broker_id}"})

    def look(ends: tuple[int, int], before: tuple[int, int]) -> list[str]:
        now = [node(number, end) for number, end in enumerate(ends)]
        earlier = {one.address: one for one in (node(number, end) for number, end in enumerate(before))}
        names = replace(NAMES, brokers=frozenset((one.name, one.address) for one in now))
        return [one.rule for one in diagnose_cluster(ClusterFacts([names], now, earlier))]

    assert look((900, 500), (800, 400)) == [], "it catches up"
    assert look((900, 400), (800, 800)) == [], "it was level a moment ago"
    assert look((900, 400), (800, 400)) == ["node-behind"]
    assert look((500 * 1024 * 1024, 400), (400, 400)) == ["node-behind"]


def test_sizes_and_names():
    assert [format_bytes(size) for size in (0, 1023, 1536, 5 * 1024**3, 3 * 1024**4)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
        "3.0 TiB",
    ]
    assert suggest_name("Orders", ["orders", "order"]) == "Did you mean 'orders'?"
    assert suggest_name("payments", ["orders"]) == ""
