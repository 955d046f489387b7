"""Our nameserver among Apache's parts: a broker that is registered with ours and with Apache's, clients that know only ours, and
the administrator's tool asked of both, whose outputs must be the same."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.protocol.bodies import KVConfigSerializeWrapper, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.fastjson.reader import parse
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.metrics import MonitoredSettings
from tests.support.apache_archive import program
from tests.support.apache_cluster import ApacheCluster, Client, JavaProcess, send_request
from tests.support.cpu_pressure import read_cpu_wait_s
from tests.support.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.interop

START = "import typer; from skyrocket.cli.namesrv import namesrv; typer.run(namesrv)"
SELF_TEST = "SELF_TEST_TOPIC"  # every broker of Apache's has it
SILENT_MS = 5_000
ACCESS = {"authenticationEnabled", "initAuthenticationUser", "innerClientAuthenticationCredentials", "authAuditLogPath"}
OURS_ALONE = (set(MonitoredSettings.rows()) | ACCESS) - {"serverChannelMaxIdleTimeSeconds"}  # limits, metrics, access control
JAVA = Path(__file__).parent / "java" / "NameserverClient.java"


class Apache(Client):
    """Apache's clients and mqadmin in one Java machine."""

    def __init__(self, home: Path) -> None:
        arguments = ["-Xmx256m", *program(JAVA)]
        JavaProcess.__init__(self, "Apache's clients", home, arguments, pipes=True)
        self._heard = b""

    def admin(self, *arguments: str) -> str:
        ((printed,),) = self.ask("admin", *arguments)
        return bytes.fromhex(printed[1:]).decode()


class Mixed(NamedTuple):
    ours: str
    theirs: str
    our_kv: Path
    their_kv: Path
    apache: tuple[Apache, Apache]  # one for each nameserver: they take their time, and work at the same time
    broker: JavaProcess

    def both(self, *arguments: str) -> tuple[str, str]:
        """What mqadmin prints for our nameserver and for Apache's, without what differs between any two of them."""
        with ThreadPoolExecutor() as pool:
            ours, theirs = (
                pool.submit(apache.admin, *arguments, "-n", nameserver)
                for apache, nameserver in zip(self.apache, (self.ours, self.theirs), strict=True)
            )
            return ours.result().replace(self.ours, "NAMESERVER"), theirs.result().replace(self.theirs, "NAMESERVER")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    home = tmp_path_factory.mktemp("mixed")
    settings = home / "ours.conf"
    settings.write_text(f"listenPort=0\nkvConfigPath={home}/ours/kvConfig.json\nscanNotActiveBrokerInterval=500\n")
    command = [sys.executable, "-c", START, "-c", str(settings)]
    with (
        (home / "ours.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as nameserver,
        ApacheCluster(home) as cluster,
    ):
        assert nameserver.stdout is not None
        ours = nameserver.stdout.readline().split()[-1].rstrip(".")
        apache = Apache(home / "clients1"), Apache(home / "clients2")
        # A broker whose slaves may stand in for it sends heartbeats, and says after how long it is to be taken for dead.
        acting = {"enableSlaveActingMaster": "true", "brokerNotActiveTimeoutMillis": SILENT_MS}
        broker = cluster.broker(home / "store", {"namesrvAddr": f"{ours};{cluster.nameserver}", **acting})
        wait_until(lambda: route(ours, SELF_TEST) is not None, "the broker registers")
        try:
            kv = home / "ours/kvConfig.json", home / "namesrv/namesrv/kvConfig.json"
            yield Mixed(ours, cluster.nameserver, *kv, apache, broker)
        finally:
            for each in apache:
                each.kill()
            nameserver.send_signal(signal.SIGTERM)
            assert nameserver.wait(WAIT_S_MAX) == 0


def route(nameserver: str, topic: str) -> TopicRouteData | None:
    host, port = nameserver.split(":")
    answer = send_request((host, int(port)), Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}))
    assert answer is not None, "the nameserver does not answer"
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
    return decode(answer.body, TopicRouteData) if answer.code == ResponseCode.SUCCESS else None


def lines(printed: str) -> list[str]:
    """In any order, as Java's sets have none."""
    return sorted(line.rstrip() for line in printed.splitlines() if line.strip())


def test_apaches_clients_exchange_messages_over_apaches_broker_knowing_only_our_nameserver(mixed: Mixed):
    created = mixed.apache[0].admin("updateTopic", "-n", mixed.ours, "-c", "Test", "-t", "Exchange", "-r", "4", "-w", "4")
    assert "create topic to 127.0.0.1" in created, created
    wait_until(lambda: route(mixed.ours, "Exchange") is not None, "the topic is registered")
    assert mixed.apache[0].ask("exchange", mixed.ours, "Exchange", 40) == [["40"]]


def test_the_lists_of_both_nameservers_are_the_same(mixed: Mixed):
    for command in (["topicList"], ["topicList", "-c"], ["topicClusterList", "-t", SELF_TEST]):
        ours, theirs = mixed.both(*command)
        assert lines(ours) == lines(theirs), command
        assert lines(ours), command


def test_the_clusters_of_both_nameservers_are_the_same(mixed: Mixed):
    ours, theirs = (re.sub(r"\d+\.\d+(\([^)]*\))?", "N", shown) for shown in mixed.both("clusterList"))
    assert re.sub(r"\s+", " ", ours) == re.sub(r"\s+", " ", theirs)
    assert "broker1" in ours


def test_the_routes_of_both_nameservers_are_the_same(mixed: Mixed):
    ours, theirs = mixed.both("topicRoute", "-t", SELF_TEST)
    assert ours == theirs
    assert '"readQueueNums":1' in ours.replace(" ", "")
    for shown in mixed.both("topicRoute", "-t", "Nowhere"):
        assert "CODE: 17" in shown


def test_keys_values_and_order_configuration_are_the_same_and_in_the_same_file(mixed: Mixed):
    steps = [
        ["updateKvConfig", "-s", "space", "-k", "kept", "-v", "a=b;c"],
        ["updateKvConfig", "-s", "space", "-k", "gone", "-v", "1"],
        ["deleteKvConfig", "-s", "space", "-k", "gone"],
        ["deleteKvConfig", "-s", "nowhere", "-k", "gone"],
        ["updateOrderConf", "-m", "put", "-t", "Ordered", "-v", "broker1:4"],
        ["updateOrderConf", "-m", "get", "-t", "Ordered"],
        ["updateOrderConf", "-m", "put", "-t", "Dropped", "-v", "broker1:2"],
        ["updateOrderConf", "-m", "delete", "-t", "Dropped"],
    ]
    for step in steps:
        ours, theirs = mixed.both(*step)
        assert ours == theirs, step
        assert "Exception" not in ours, ours
    kept = [decode(path.read_bytes(), KVConfigSerializeWrapper) for path in (mixed.our_kv, mixed.their_kv)]
    assert kept[0] == kept[1]
    assert kept[0].config_table == {"space": {"kept": "a=b;c"}, "ORDER_TOPIC_CONFIG": {"Ordered": "broker1:4"}}
    for shown in mixed.both("updateOrderConf", "-m", "get", "-t", "Dropped"):
        assert "CODE: 22" in shown


WHO = {"clusterName": "Test", "brokerName": "broker1", "brokerId": "0"}
NOBODY = {
    "clusterName": "None",
    "brokerName": "nobody",
    "brokerAddr": "127.0.0.1:1",
    "brokerId": "0",
    "haServerAddr": "127.0.0.1:2",
}
VERSION = b'{"counter":77,"stateVersion":0,"timestamp":5}'
QUESTIONS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "all topics": (206, {}, b""),
    "topics of a cluster": (224, {"cluster": "Test"}, b""),
    "topics of no cluster": (224, {"cluster": "None"}, b""),
    "system topics": (304, {}, b""),
    "unit topics": (311, {}, b""),
    "unit subscriptions": (312, {}, b""),
    "unit subscriptions only": (313, {}, b""),
    "clusters": (106, {}, b""),
    "a route": (105, {"topic": SELF_TEST}, b""),
    "a route in strict JSON": (105, {"topic": SELF_TEST, "acceptStandardJsonOnly": "true"}, b""),
    "a route of a zone": (105, {"topic": SELF_TEST, "__ZONE_MODE": "true", "__ZONE_NAME": "east"}, b""),
    "no route": (105, {"topic": "Nowhere"}, b""),
    "members": (901, WHO, b""),
    "members of nobody": (901, NOBODY, b""),
    "a state of nobody": (322, NOBODY, VERSION),
    "no state": (322, NOBODY, b""),
    "a heartbeat of nobody": (904, NOBODY, b""),
    "a goodbye of nobody": (104, NOBODY, b""),
    "a registration with a bad CRC": (103, {**NOBODY, "bodyCrc32": "5"}, b"{}"),
    "a registration that is nonsense": (103, NOBODY, b"nonsense"),
    "a registration of nothing": (103, {"brokerName": "x"}, b""),
    "no key": (101, {"namespace": "none", "key": "none"}, b""),
    "no namespace": (219, {"namespace": "none"}, b""),
    "wiping nobody": (205, {"brokerName": "nobody"}, b""),
    "adding nobody": (327, {"brokerName": "nobody"}, b""),
    "deleting no topic": (216, {"topic": "Nowhere"}, b""),
    "deleting a topic in no cluster": (216, {"topic": SELF_TEST, "clusterName": "None"}, b""),
    "changing nothing": (318, {}, b""),
    "changing a path": (318, {}, b"kvConfigPath=/tmp/x"),
    "changing the home": (318, {}, b"rocketmqHome=/tmp/x"),
    "an unknown code": (999, {}, b""),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_nameservers_answer_alike(mixed: Mixed, question: str):
    code, fields, body = QUESTIONS[question]
    answers = []
    for nameserver in (mixed.ours, mixed.theirs):
        host, port = nameserver.split(":")
        answer = send_request((host, int(port)), Command(code, fields=dict(fields), body=body))
        assert answer is not None, f"{nameserver} does not answer"
        answers.append((answer.code, answer.fields, as_meant(answer.body)))
    assert answers[0] == answers[1]


def as_meant(body: bytes) -> object:
    """Fastjson's dialect read, and lists, which are Java's sets, in one order."""
    return _sorted(parse(body.decode())) if body else None


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _sorted(each) for key, each in value.items()}
    return sorted(map(_sorted, value), key=repr) if isinstance(value, list) else value


def test_write_permission_is_taken_and_given_back_alike(mixed: Mixed):
    for command, permission in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        ours, theirs = mixed.both(command, "-b", "broker1")
        assert ours == theirs
        assert re.search(r"OK, \d\d", ours), ours
        for nameserver in (mixed.ours, mixed.theirs):
            found = route(nameserver, SELF_TEST)
            assert found is not None
            assert [row.perm for row in found.queue_datas] == [permission]


def test_our_settings_are_apaches_and_change_like_them(mixed: Mixed):
    def shown() -> list[dict[str, str]]:
        return [dict(re.findall(r"^(\w+) *= *(.*?) *$", printed, re.MULTILINE)) for printed in mixed.both("getNamesrvConfig")]

    machine = {"listenPort", "kvConfigPath", "configStorePath", "scanNotActiveBrokerInterval"}
    ours, theirs = shown()
    ours = {key: value for key, value in ours.items() if key not in OURS_ALONE}
    assert set(ours) <= set(theirs)
    assert {key: theirs[key] for key in ours if key not in machine} == {key: ours[key] for key in ours if key not in machine}
    changed = mixed.both("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert changed[0] == changed[1]
    assert [each["orderMessageEnable"] for each in shown()] == ["true", "true"]
    for printed in mixed.both("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/tmp/elsewhere"):
        assert "CODE: 16" in printed


def test_a_deleted_topic_goes_from_both(mixed: Mixed):
    mixed.apache[0].admin("updateTopic", "-n", mixed.ours, "-c", "Test", "-t", "Short", "-r", "1", "-w", "1")
    for nameserver in (mixed.ours, mixed.theirs):
        wait_until(lambda at=nameserver: route(at, "Short") is not None, "the topic is registered")
    for printed in mixed.both("deleteTopic", "-c", "Test", "-t", "Short"):
        assert "success" in printed
    assert (route(mixed.ours, "Short"), route(mixed.theirs, "Short")) == (None, None)


def test_a_broker_that_stands_still_is_gone_after_its_time_and_comes_back(mixed: Mixed):
    found = route(mixed.ours, SELF_TEST)
    assert found is not None
    assert found.broker_datas[0].broker_addrs is not None
    host, port = found.broker_datas[0].broker_addrs[0].split(":")
    time.sleep(SILENT_MS / 1000 + 1)
    assert route(mixed.ours, SELF_TEST) is not None, "its heartbeats keep it, although it registers only twice a minute"
    mixed.broker.process.send_signal(signal.SIGSTOP)
    took_s = wait_until(lambda: route(mixed.ours, SELF_TEST) is None, "the route goes")
    mixed.broker.process.send_signal(signal.SIGCONT)
    assert took_s > SILENT_MS / 1000 - 2, "its last heartbeat was at most a second old"
    # It registers every half a minute, and after a change of its settings.
    send_request((host, int(port)), Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n"))
    wait_until(lambda: route(mixed.ours, SELF_TEST) is not None, "the broker comes back")


def test_a_killed_broker_is_gone_at_once(mixed: Mixed):
    """The last test: there is no broker afterwards."""
    assert route(mixed.ours, SELF_TEST) is not None
    waited_s = read_cpu_wait_s()
    mixed.broker.kill()
    took_s = wait_until(lambda: route(mixed.ours, SELF_TEST) is None, "the route goes")
    assert took_s < 2 + read_cpu_wait_s() - waited_s
    ours, theirs = mixed.both("clusterList")
    assert ours == theirs
    assert "#Cluster Name" in ours
    assert "broker1" not in ours
