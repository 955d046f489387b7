"""mqadmin 5.5.0 asked of two clusters, one of Apache's and one of ours, in the same state: what it prints must be the same.

Times, addresses, paths, rates and ids differ between any two clusters and are blanked; of a failure the kinds and codes count,
not the sentences. The commands that only ask nameservers are in test_nameserver.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skyrocket.settings.server import ServerSettings
from tests.support.apache.admin import Admin
from tests.support.apache.cluster import ApacheCluster
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, Skyrocket
from tests.support.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.interop

CLUSTER = {"brokerClusterName": "Test", "brokerName": "broker1"}
OURS_ALONE = set(ServerSettings.rows()) - {"serverChannelMaxIdleTimeSeconds"}
PRODUCERS, CONSUMERS, TOPIC, COUNT = "Producers", "Consumers", "Orders", 40

BLANKS = [
    (
        r"^(\S+ )?haExtension : 1$",
        "",
    ),  # a row of ours: slaves of ours see by it that more can be asked than Apache's protocol knows
    (r"^(\S+ )?(busyRefusals|skyrocketVersion|stageMillis_\w+) *: .*$", ""),  # rows of ours
    (r"(CODE: \d+) .*", r"\1"),  # the sentences are each its own
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:]\d+)?", "TIME"),
    (r"\b1\d{12}\b", "MILLISECONDS"),
    (r"\b[0-9A-F]{32,60}\b", "ID"),
    (r"\d+\.\d+(E-?\d+)?", "RATE"),
    (r"RATE( RATE)+|RATE(?= *$)", "RATES"),
    (r"(QueueCapacity|TimeMax|Behind|putMessageDistributeTime) ?: .*", r"\1: NUMBER"),
    (r"^(.*runtime +): .*", r"\1: SPAN"),
    (r"RATES? [KMGT]iB", "SIZE"),
    (r"rt=\d+ms", "rt=SPAN"),
    (r"\b\d+-(\d+\(RATEw)", r"BEHIND-\1"),  # by how many seconds timers are late depends on the machine
]
TRACE = ("\tat ", "\t... ", "For more information", "See https://")


@dataclass
class Side:
    admin: Admin
    nameserver: str
    address: str
    store: Path
    home: Path
    ids: dict[str, str] = field(default_factory=dict)  # of one message, by the word that stands for it in commands

    def lines(self, *arguments: str) -> list[str]:
        """What the command prints here, blanked, in one order: Java's sets have none."""
        own = [argument.replace("BROKER", self.address).replace("HOME", str(self.home)) for argument in arguments]
        own = [self.ids.get(argument, argument) for argument in own]
        printed = self.admin.admin(*own, "-n", self.nameserver)
        for what, name in ((self.address, "BROKER"), (str(self.store), "STORE"), (str(self.home), "HOME")):
            printed = printed.replace(what, name)
        lines = [re.sub(r"\s+", " ", line).strip() for line in printed.splitlines() if not line.startswith(TRACE)]
        for pattern, blank in BLANKS:
            lines = [re.sub(pattern, blank, line) for line in lines]
        return sorted(line for line in lines if line)


@dataclass
class Two:
    ours: Side
    theirs: Side
    pool: ThreadPoolExecutor

    def at_once(self, do: Callable[[Side], list[str]]) -> tuple[list[str], list[str]]:
        ours, theirs = (self.pool.submit(do, side) for side in (self.ours, self.theirs))
        return ours.result(), theirs.result()

    def both(self, *arguments: str) -> tuple[list[str], list[str]]:
        return self.at_once(lambda side: side.lines(*arguments))

    def soon_same(self, command: str) -> str:
        """A question gets the same answer from both. It is asked again while one side is behind with its offsets or figures."""
        deadline = time.monotonic() + WAIT_S_MAX
        while (both := self.both(*command.split()))[0] != both[1] and time.monotonic() < deadline:
            time.sleep(0.2)
        return self.same(command)

    def same(self, command: str, *blanks: tuple[str, str]) -> str:
        """What both print; `blanks` are for this command alone."""
        ours, theirs = self.both(*command.split())
        for pattern, blank in blanks:
            ours, theirs = ([re.sub(pattern, blank, line) for line in lines] for lines in (ours, theirs))
        assert ours == theirs, command
        assert not re.search(r"CODE: 3\b|\.Remoting\w+Exception", " ".join(ours)), f"{command} did not reach a handler"
        return "\n".join(ours)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Each cluster with a topic of 40 messages, and a producer and a consumer that are connected."""
    home = tmp_path_factory.mktemp("mqadmin")
    for name in ("ours", "theirs"):
        (home / name).mkdir()
    port = free_port(-2, 1)
    with (
        ApacheCluster(home / "apache") as cluster,
        Skyrocket(home / "skyrocket", CLUSTER) as skyrocket,
        ThreadPoolExecutor(2) as pool,
    ):
        admins = Admin(home / "ours"), Admin(home / "theirs")
        try:
            cluster.broker(home / "store", {**SMALL_STORE, **CLUSTER, "timerFlushIntervalMs": 1_000, "listenPort": port})
            ours = Side(admins[0], skyrocket.nameserver, skyrocket.address, skyrocket.data / "store", home / "ours")
            theirs = Side(admins[1], cluster.nameserver, f"127.0.0.1:{port}", home / "store", home / "theirs")
            sides = Two(ours, theirs, pool)
            sides.at_once(connect)
            yield sides
        finally:
            for admin in admins:
                admin.kill()
        assert skyrocket.complaints() == []


def connect(side: Side) -> list[str]:
    side.lines("updateTopic", "-c", "Test", "-t", TOPIC, "-r", "4", "-w", "4")
    side.admin.produce(side.nameserver, PRODUCERS)
    side.admin.send(PRODUCERS, TOPIC, 0, COUNT, deal=True)
    side.admin.consume(side.nameserver, CONSUMERS, TOPIC)
    wait_until(lambda: len(side.admin.received(CONSUMERS)) == COUNT, "the consumer gets everything")
    wait_until(lambda: has_committed(side), "it commits")
    asked = ("queryMsgByOffset", "-t", TOPIC, "-b", "broker1", "-i", "2", "-o", "3", "-n", side.nameserver)
    shown = side.admin.admin(*asked)
    for word, pattern in (("OFFSET_ID", r"OffsetID: +(\w+)"), ("UNIQUE_ID", r"UNIQ_KEY=(\w+)")):
        found = re.search(pattern, shown)
        assert found is not None, shown
        side.ids[word] = found[1]
    wait_until(lambda: "Offset" in " ".join(side.lines("queryMsgByKey", "-t", TOPIC, "-k", f"key{COUNT - 1}")), "it is indexed")
    return []


def has_committed(side: Side) -> bool:
    """Everything. A group's retry topic may have its first offsets before the topic has."""
    shown = side.lines("consumerProgress", "-g", CONSUMERS)
    return "Consume Diff Total: 0" in shown and any(line.startswith(f"{TOPIC} broker1 3 ") for line in shown)


# --- questions: whatever their order, the answers are the same

QUESTIONS = [
    f"topicRoute -t {TOPIC}",
    f"topicRoute -t {TOPIC} -l",
    "topicRoute -t Missing",
    f"topicStatus -t {TOPIC}",
    "topicStatus -t SELF_TEST_TOPIC",
    "topicStatus -t Missing",
    f"topicClusterList -t {TOPIC}",
    f"allocateMQ -t {TOPIC} -i 10.0.0.1,10.0.0.2",
    "clusterList",
    "brokerStatus -b BROKER",
    "brokerStatus -c Test",
    "getConsumerConfig -g TOOLS_CONSUMER",
    "getConsumerConfig -g Missing",
    f"consumerProgress -g {CONSUMERS}",
    f"consumerProgress -g {CONSUMERS} -t {TOPIC}",
    f"consumerProgress -g {CONSUMERS} -s true",
    "consumerProgress -g Missing",
    f"consumerConnection -g {CONSUMERS}",
    f"consumerConnection -g {CONSUMERS} -b BROKER",
    "consumerConnection -g Missing",
    f"consumerStatus -g {CONSUMERS}",
    f"consumerStatus -g {CONSUMERS} -b BROKER -s",
    "consumerStatus -g Missing",
    f"producerConnection -g {PRODUCERS} -t {TOPIC}",
    f"producerConnection -g Missing -t {TOPIC}",
    "producer -b BROKER",
    f"queryCq -t {TOPIC} -q 0 -i 0 -c 3",
    f"queryCq -t {TOPIC} -q 0 -i 2 -c 3 -b BROKER -g {CONSUMERS}",
    f"queryCq -t {TOPIC} -q 0 -i 1000",
    f"queryCq -t {TOPIC} -q 9 -i 0",
    f"printMsg -t {TOPIC} -d true",
    f"printMsg -t {TOPIC} -s tag1",
    f"printMsgByQueue -t {TOPIC} -a broker1 -i 2 -p true -d true",
    f"printMsgByQueue -t {TOPIC} -a broker1 -i 2 -f true",
    f"consumeMessage -t {TOPIC} -b broker1 -i 2 -o 3 -c 4",
    f"consumeMessage -t {TOPIC}",
    f"queryMsgByKey -t {TOPIC} -k key5",
    f"queryMsgByKey -t {TOPIC} -k key5 -m 1",
    f"queryMsgByKey -t {TOPIC} -k nobody",
    "queryMsgByKey -t Missing -k key5",
    f"queryMsgByUniqueKey -t {TOPIC} -i UNIQUE_ID",
    f"queryMsgByUniqueKey -t {TOPIC} -i UNIQUE_ID -a",
    f"queryMsgById -t {TOPIC} -i OFFSET_ID",
    f"queryMsgById -t {TOPIC} -i OFFSET_ID -u true",
    f"queryMsgById -t {TOPIC} -i 0000",
    f"queryMsgByOffset -t {TOPIC} -b broker1 -i 2 -o 3",
    f"queryMsgByOffset -t {TOPIC} -b broker1 -i 2 -o 1000",
    "queryMsgTraceById -i UNIQUE_ID",
    "cleanExpiredCQ -b BROKER",
    "cleanExpiredCQ -c Test",
    "cleanUnusedTopic -b BROKER",
    "cleanUnusedTopic -c Test",
    "deleteExpiredCommitLog -b BROKER",
    "deleteExpiredCommitLog -c Test",
]


@pytest.mark.parametrize("command", QUESTIONS)
def test_both_clusters_say_the_same(two: Two, command: str):
    two.soon_same(command)


def test_a_question_without_an_answer_fails_with_the_same_code(two: Two):
    assert "CODE: 17" in two.same("topicStatus -t Missing")
    assert "CODE: 1" in two.same(f"queryCq -t {TOPIC} -q 9 -i 0")


def test_statistics_have_the_same_rows(two: Two):
    """Apache's totals of a day wait for its samples; ours count from the first message."""
    shown = two.same("statsAll -t " + TOPIC, (r" \d+ \d+$", " IN OUT"))
    assert f"{TOPIC} {CONSUMERS} 0 RATES IN OUT" in shown
    two.same("clusterList -m", (r" \d+ \d+$", " IN OUT"))


def test_the_state_of_replication_has_the_same_form(two: Two):
    two.same("haStatus -b BROKER", (r"\b\d{3,}\b", "OFFSET"))


def test_the_progress_of_all_groups_is_the_same(two: Two):
    def of_our_group(lines: list[str]) -> list[str]:
        return [re.sub(r" \d+ (\d+)$", r" TPS \1", line) for line in lines if line.startswith(("#", CONSUMERS))]

    ours, theirs = map(of_our_group, two.both("consumerProgress"))
    assert ours == theirs
    assert f"{CONSUMERS} 1 V5_5_0 PUSH CLUSTERING TPS 0" in ours
    ours, theirs = two.both("brokerConsumeStats", "-b", "BROKER")
    assert ours == theirs
    assert any(line.startswith(f"{TOPIC} {CONSUMERS} broker1 3 10 10 0") for line in ours), ours


# --- changes: the same steps on both, each showing the same

SCRIPTS = {
    "topics": [
        "updateTopic -c Test -t Made -r 2 -w 3",
        "updateTopic -b BROKER -t Made -r 4 -w 4 -p 6 -o true",
        "updateTopic -c Test -t Typed -a +message.type=FIFO",
        "updateTopic -c Test -t Typed -a +message.type=NONSENSE",
        "updateTopic -b BROKER -t Bad%Name! -r 2 -w 3",
        "updateTopic -b BROKER -t TBW102 -r 2 -w 3",
        "updateTopic -c Nowhere -t Made",
        "updateTopicPerm -b BROKER -t Made -p 4",
        "topicRoute -t Made",
        "updateTopicPerm -c Test -t Made -p 6",
        "updateTopicPerm -c Test -t Missing -p 6",
        "updateTopicList -c Test -f HOME/topics.json",
        "topicStatus -t Listed2",
        "topicList",
        "topicList -c",
        "deleteTopic -c Test -t Made",
        "deleteTopic -c Test -t Typed",
        "deleteTopic -c Test -t Missing",
        "deleteTopic -c Test -t TBW102",
        "topicRoute -t Made",
        "topicList -c",
    ],
    "groups": [
        "updateSubGroup -c Test -g Made -s true -r 7",
        "updateSubGroup -b BROKER -g Made -m false -d true -q 2",
        "getConsumerConfig -g Made",
        "updateSubGroup -c Nowhere -g Made",
        "updateSubGroupList -b BROKER -f HOME/groups.json",
        "getConsumerConfig -g Listed2",
        "deleteSubGroup -c Test -g Made",
        "deleteSubGroup -b BROKER -g Listed1 -r true",
        "deleteSubGroup -b BROKER -g Nobody",  # which makes that group in Apache's: it is not asked about again
    ],
    "offsets of a group that is away": [
        "updateSubGroup -c Test -g Away",
        f"resetOffsetByTime -g Away -t {TOPIC} -s 0",
        f"resetOffsetByTime -g Away -t {TOPIC} -s now",
        f"resetOffsetByTime -g Away -t {TOPIC} -s -1 -b BROKER -q 1 -o 3",
        f"resetOffsetByTime -g Missing -t {TOPIC} -s -1",
        "resetOffsetByTime -g Away -t Missing -s -1",
        f"skipAccumulatedMessage -g Away -t {TOPIC}",
        f"skipAccumulatedMessage -g Missing -t {TOPIC}",
        "skipAccumulatedMessage -g Away -t Missing",
        "updateSubGroup -c Test -g Cloned",
        f"cloneGroupOffset -s {CONSUMERS} -d Cloned -t {TOPIC}",
        f"cloneGroupOffset -s {CONSUMERS} -d Cloned -t {TOPIC} -o true",
        f"cloneGroupOffset -s Missing -d Cloned -t {TOPIC}",
        f"cloneGroupOffset -s {CONSUMERS} -d Cloned -t Missing",
        f"cloneGroupOffset -s {CONSUMERS} -d Missing -t {TOPIC}",
        f"consumerProgress -g Cloned -t {TOPIC}",
    ],
    "messages": [
        "updateTopic -c Test -t Mail -r 2 -w 2",
        "sendMessage -t Mail -p hello -k key1 -c red -b broker1 -i 1",
        "sendMessage -t Mail -p hello -k key2 -c blue -b broker1 -i 0",
        "sendMessage -t Mail -p hello -b broker1 -i 9",
        "sendMessage -t Mail -p hello -b nobody -i 0",
        "printMsg -t Mail -d true",
        "consumeMessage -t Mail -b broker1 -i 1 -o 0 -c 1",
        "topicStatus -t Mail",
        "sendMsgStatus -b broker1 -s 64 -c 3",
        "deleteTopic -c Test -t Mail",
    ],
    "order": [
        "updateTopic -c Test -t InOrder -r 4 -w 4 -o true",
        "updateOrderConf -t InOrder -m get",
        "updateOrderConf -t InOrder -m put -v broker1:2",
        "updateOrderConf -t InOrder -m get",
        "topicStatus -t InOrder",
        "updateOrderConf -t InOrder -m delete",
        "updateOrderConf -t InOrder -m get",
        "deleteTopic -c Test -t InOrder",
    ],
    "a group that is stopped": [
        "updateSubGroup -c Test -g Stopped -s false",
        "getConsumerConfig -g Stopped",
        "updateSubGroup -c Test -g Stopped -s true",
        "getConsumerConfig -g Stopped",
        "deleteSubGroup -c Test -g Stopped",
    ],
    "settings": [
        "updateBrokerConfig -b BROKER -k traceOn -v false",
        "updateBrokerConfig -c Test -k traceOn -v true",
    ],
    "writing": [
        "wipeWritePerm -b broker1",
        f"topicRoute -t {TOPIC}",
        "addWritePerm -b broker1",
        f"topicRoute -t {TOPIC}",
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_same_steps_show_the_same(two: Two, script: str):
    for side in (two.ours, two.theirs):
        (side.home / "topics.json").write_text(
            json.dumps([{"topicName": "Listed1", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}, {"topicName": "Listed2"}])
        )
        (side.home / "groups.json").write_text(
            json.dumps([{"groupName": "Listed1"}, {"groupName": "Listed2", "retryMaxTimes": 3}])
        )
    for step in SCRIPTS[script]:
        two.same(step)


def test_a_group_that_is_here_is_reset_and_consumes_again(two: Two):
    """The broker tells the consumer, which starts over: every message comes a second time, and no more."""
    two.same(f"resetOffsetByTime -g {CONSUMERS} -t {TOPIC} -s 0")
    for side in (two.ours, two.theirs):
        wait_until(lambda at=side: len(at.admin.received(CONSUMERS)) >= 2 * COUNT, "it consumes again")
        again = side.admin.received(CONSUMERS)[COUNT:]
        assert sorted(message.number for message in again) == list(range(COUNT))
    two.same(f"resetOffsetByTime -g {CONSUMERS} -t {TOPIC} -s now")
    two.same(f"skipAccumulatedMessage -g {CONSUMERS} -t {TOPIC}")
    for side in (two.ours, two.theirs):
        wait_until(lambda at=side: "Diff Total: 0" in " ".join(at.lines("consumerProgress", "-g", CONSUMERS)), "it commits")


def test_the_times_of_sending_are_measured(two: Two):
    two.same("updateTopic -c Test -t Timed -r 2 -w 2")
    two.same("checkMsgSendRT -t Timed -a 5 -s 64", (r"broker1 \d true \d+", "broker1 QUEUE true SPAN"))
    two.same("deleteTopic -c Test -t Timed")


def test_our_settings_are_apaches(two: Two):
    ours, theirs = (
        dict(re.findall(r"^(\w+) = ?(.*)$", "\n".join(lines), re.MULTILINE))
        for lines in two.both("getBrokerConfig", "-b", "BROKER")
    )
    machine = {
        "listenPort",
        "brokerIP1",
        "brokerIP2",
        "haListenPort",
        "namesrvAddr",
        "storePathRootDir",
        "storePathCommitLog",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "fileReservedTime",
        "flushIntervalCommitLog",
        "mappedFileSizeTimerLog",
        "transactionOpBatchInterval",  # Apache's thread that writes op messages spins otherwise
        "transactionOpMsgMaxSize",
    }
    # Apache's wheel has the size that this has by default; where its changes go is known to it by -c alone. It reads no paths of
    # queues and index: both lie in storePathRootDir. It does not scrub. Its address server is a system property.
    ours_alone = {"timerWheelSlots", "brokerConfigPath", "storePathConsumeQueue", "storePathIndex", "scrubBytesPerSecond"}
    ours_alone |= {"rmqAddressServerDomain", "rmqAddressServerSubGroup"} | OURS_ALONE
    # Apache does not show the keys of slaves and DLedger groups while they are empty.
    ours_alone |= {"haMasterAddress", "haSecretPath", "haTls", "dLedgerTimings"}
    ours_alone |= {"dLegerGroup", "dLegerPeers", "dLegerSelfId", "preferredLeaderId", "storePathDLedgerCommitLog"}
    # Keys of ours for access control, and those that Apache shows only when its settings file has them.
    ours_alone |= {"authorizationCompatible", "plainAclPath", "authAuditLogPath", "metricsAllowedAddresses"}
    ours_alone |= {"authenticationEnabled", "authorizationEnabled", "authenticationWhitelist", "authorizationWhitelist"}
    ours_alone |= {"initAuthenticationUser", "innerClientAuthenticationCredentials", "migrateAuthFromV1Enabled"}
    assert set(ours) - ours_alone <= set(theirs)
    differing = {key: (ours[key], theirs[key]) for key in ours.keys() - machine - ours_alone if ours[key] != theirs[key]}
    # 0: as the role says. Apache's SYNC_MASTER waits for nobody. Each label set of a metric costs memory: ours allows fewer.
    assert differing == {"inSyncReplicas": ("0", "1"), "metricsOtelCardinalityLimit": ("2000", "50000")}


def test_what_apache_would_let_anyone_change_we_refuse(two: Two):
    """Paths, addresses and unknown settings: Apache's broker takes all of them."""
    refused = (("storePathRootDir", "/tmp/elsewhere", 16), ("namesrvAddr", "10.0.0.1:9876", 16), ("noSuchSetting", "5", 1))
    for key, value, code in refused:
        shown = two.ours.lines("updateBrokerConfig", "-b", "BROKER", "-k", key, "-v", value)
        assert any(line.endswith(f"CODE: {code}") or f"CODE: {code} " in line for line in shown), (key, shown)


def test_what_is_exported_is_the_same(two: Two):
    for command in ("exportMetadata", "exportConfigs", "exportMetrics"):
        two.same(f"{command} -c Test -f HOME/export")
    exported = [json.loads((side.home / "export" / "metadata.json").read_text()) for side in (two.ours, two.theirs)]
    for part in ("topicConfigTable", "subscriptionGroupTable"):
        ours, theirs = (
            {name: row for name, row in each[part].items() if TOPIC in name or CONSUMERS in name} for each in exported
        )
        assert ours == theirs, part
        assert ours, part


def test_clients_that_left_are_gone(two: Two):
    """A producer and a consumer come, are seen, and leave."""
    two.same("updateTopic -c Test -t Visits -r 2 -w 2")
    for side in (two.ours, two.theirs):
        side.admin.produce(side.nameserver, "Guests")
        side.admin.send("Guests", "Visits", 0, 4, deal=True)
        side.admin.consume(side.nameserver, "Visitors", "Visits")
    assert "CODE" not in two.soon_same("producerConnection -g Guests -t Visits")
    for side in (two.ours, two.theirs):
        wait_until(lambda at=side: len(at.admin.received("Visitors")) == 4, "it consumes")
        side.admin.stop_client("Guests")
        side.admin.stop_client("Visitors")
    assert "CODE: 1" in two.soon_same("producerConnection -g Guests -t Visits")
    assert "CODE: 206" in two.soon_same("consumerConnection -g Visitors")
    two.soon_same("consumerProgress -g Visitors -t Visits")
    two.same("deleteTopic -c Test -t Visits")
    two.same("deleteSubGroup -c Test -g Visitors -r true")
