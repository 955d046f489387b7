"""Every alert rule, evaluated by the real promtool: raised when it should be, for the right series, and silent otherwise."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.monitoring_files import ALERTS, alerts
from tests.support.tools import need

BROKER = {"instance": "10.0.0.7:5557", "job": "skyrocket", "cluster": "C", "node_id": "broker-a"}
NAMES = {"instance": "10.0.0.8:5557", "job": "skyrocket", "node_id": "10.0.0.8:9876"}
LAG = {**BROKER, "consumer_group": "coupons", "topic": "orders", "is_system": "false"}
SYSTEM = {**LAG, "is_system": "true"}
WITHOUT_JOB = {name: value for name, value in BROKER.items() if name != "job"}


class Series(NamedTuple):
    """A metric and its values, one a minute, as promtool writes them: 0x5 is six times 0, 0+2x5 grows by 2, _ is nothing."""

    name: str
    labels: dict[str, str]
    values: str

    @property
    def document(self) -> dict[str, str]:
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        return {"series": f"{self.name}{{{labels}}}", "values": self.values}


class Raised(NamedTuple):
    """What an alert says: the labels of its series, and its sentence."""

    labels: dict[str, str]
    summary: str


class Case(NamedTuple):
    alert: str
    series: list[Series]
    at: str
    raised: Raised | None


def histogram(name: str, labels: dict[str, str], **growth: int) -> list[Series]:
    """Buckets that grow in each minute: by how much up to which bound, such as le_0_5=10."""
    bounds = {one.removeprefix("le_").replace("_", "."): step for one, step in growth.items()}
    return [
        Series(f"{name}_bucket", {**labels, "le": "+Inf" if bound == "inf" else bound}, f"0+{step}x40")
        for bound, step in bounds.items()
    ]


DLQ = ("rocketmq_send_to_dlq_messages_total", {"consumer_group": "coupons", "topic": "orders", "is_system": "false", **BROKER})
GAVE_UP = Raised(DLQ[1], "Group coupons gave up messages of orders.")
SLOW = histogram("skyrocket_loop_pause_seconds", BROKER, le_0_25=90, le_1=100, le_inf=100)
QUICK = histogram("skyrocket_loop_pause_seconds", BROKER, le_0_25=100, le_1=100, le_inf=100)
FLUSH = {**BROKER, "stage": "flush"}
LATE_MS, OLD_MS = "700000x40", "300000000x40"
KNOWN = {**NAMES, "broker_cluster": "C"}
UP = Series("up", {"instance": NAMES["instance"], "job": "skyrocket"}, "1x90")
DOWN = {"instance": BROKER["instance"], "job": "skyrocket"}
EXPIRES = {**WITHOUT_JOB, "consumer_group": "coupons", "topic": "orders"}

CASES = [
    Case("ServerDown", [Series("up", DOWN, "1x5 0x5")], "9m", Raised(DOWN, "10.0.0.7:5557 does not answer.")),
    Case("ServerDown", [Series("up", DOWN, "1x5 0 1x5"), Series("up", {**DOWN, "job": "other"}, "0x20")], "9m", None),
    Case(
        "StoreRefusesMessages",
        [Series("skyrocket_store_writable", BROKER, "1x5 0x5")],
        "9m",
        Raised(BROKER, "broker-a takes no messages. Its /readyz says why."),
    ),
    Case("StoreRefusesMessages", [Series("skyrocket_store_writable", BROKER, "1x5 0 1x5")], "9m", None),
    Case(
        "DiskFillsUp",
        [
            Series("skyrocket_disk_used_ratio", {**BROKER, "disk": "commitlog"}, "0.86x20"),
            Series("skyrocket_disk_used_ratio", {**BROKER, "disk": "store"}, "0.3x20"),
            Series("skyrocket_disk_refuses_ratio", BROKER, "0.9x20"),
        ],
        "9m",
        Raised(WITHOUT_JOB, "The disk of broker-a is 86% full."),
    ),
    Case(
        "DiskFillsUp",
        [
            Series("skyrocket_disk_used_ratio", {**BROKER, "disk": "commitlog"}, "0.84x20"),
            Series("skyrocket_disk_refuses_ratio", BROKER, "0.9x20"),
        ],
        "9m",
        None,
    ),
    Case(
        "LogDamaged",
        [Series("skyrocket_damaged_ranges", BROKER, "0x5 2x5")],
        "6m",
        Raised(BROKER, "broker-a has found 2 damaged ranges in its log."),
    ),
    Case("LogDamaged", [Series("skyrocket_damaged_ranges", BROKER, "0x20")], "6m", None),
    Case(
        "BrokerBusy",
        [Series("skyrocket_refused_requests_total", BROKER, "0+60x20")],
        "15m",
        Raised(BROKER, "broker-a refuses 1 requests a second with SYSTEM_BUSY."),
    ),
    Case("BrokerBusy", [Series("skyrocket_refused_requests_total", BROKER, "70x20")], "15m", None),
    Case("LoopPauses", SLOW, "20m", Raised(WITHOUT_JOB, "The event loop of broker-a is late by 925ms.")),
    Case("LoopPauses", QUICK, "20m", None),
    Case(
        "FlushSlow",
        histogram("skyrocket_stage_seconds", FLUSH, le_0_5=90, le_1=100, le_inf=100),
        "20m",
        Raised(WITHOUT_JOB, "Flushes of broker-a take 950ms."),
    ),
    Case(
        "FlushSlow",
        [
            *histogram("skyrocket_stage_seconds", FLUSH, le_0_5=100, le_1=100, le_inf=100),
            *histogram("skyrocket_stage_seconds", {**BROKER, "stage": "park"}, le_0_5=0, le_1=100, le_inf=100),
        ],
        "20m",
        None,
    ),
    Case(
        "ConsumerLate",
        [Series("rocketmq_consumer_lag_latency_milliseconds", LAG, LATE_MS)],
        "12m",
        Raised(LAG, "Group coupons has not consumed messages of orders for more than 10 minutes."),
    ),
    Case(
        "ConsumerLate",
        [
            Series("rocketmq_consumer_lag_latency_milliseconds", {**LAG, "topic": "quick"}, "500000x40"),
            Series("rocketmq_consumer_lag_latency_milliseconds", SYSTEM, LATE_MS),
        ],
        "12m",
        None,
    ),
    Case(
        "ConsumersGone",
        [
            Series("rocketmq_consumer_lag_messages", LAG, "4x40"),
            Series("rocketmq_consumer_lag_messages", {**LAG, "topic": "bills"}, "3x40"),
            Series("rocketmq_consumer_connections", {**BROKER, "consumer_group": "others"}, "1x40"),
        ],
        "20m",
        Raised({**WITHOUT_JOB, "consumer_group": "coupons"}, "Group coupons has 7 messages to consume, and no consumer."),
    ),
    Case(
        "ConsumersGone",
        [
            Series("rocketmq_consumer_lag_messages", LAG, "4x40"),
            Series("rocketmq_consumer_lag_messages", SYSTEM, "4x40"),
            Series("rocketmq_consumer_connections", {**BROKER, "consumer_group": "coupons", "language": "java"}, "1x40"),
        ],
        "20m",
        None,
    ),
    Case(
        "MessagesExpireUnread",
        [
            Series("rocketmq_consumer_lag_latency_milliseconds", LAG, OLD_MS),
            Series("skyrocket_retention_seconds", BROKER, "259200x40"),
        ],
        "12m",
        Raised(EXPIRES, "Messages of orders will expire before group coupons has read them."),
    ),
    Case(
        "MessagesExpireUnread",
        [
            Series("rocketmq_consumer_lag_latency_milliseconds", LAG, OLD_MS),
            Series("skyrocket_retention_seconds", BROKER, "432000x40"),
        ],
        "12m",
        None,
    ),
    Case("DeadLetters", [Series(*DLQ, "_x5 1x20")], "7m", GAVE_UP),  # the first letter makes the series
    Case("DeadLetters", [Series(*DLQ, "_x5 1x40")], "25m", None),
    Case("DeadLetters", [Series(*DLQ, "3x20 4x20")], "22m", GAVE_UP),
    Case("DeadLetters", [Series(*DLQ, "3x20 _x20 1x9")], "43m", GAVE_UP),  # the first letter after a restart
    Case("DeadLetters", [Series(*DLQ, "3x20 _x3 3x20")], "38m", None),  # scrapes that failed
    Case("DeadLetters", [Series(*DLQ, "3x40")], "25m", None),
    Case(
        "HalfMessagesWait",
        [Series("skyrocket_half_messages_unchecked", BROKER, "12000x40")],
        "20m",
        Raised(BROKER, "12000 half messages of broker-a may wait for their transaction."),
    ),
    Case("HalfMessagesWait", [Series("skyrocket_half_messages_unchecked", BROKER, "12000x10 10x40")], "20m", None),
    Case(
        "TimersLate",
        [Series("rocketmq_timer_dequeue_latency_milliseconds", BROKER, "20000x20")],
        "9m",
        Raised(BROKER, "Timed messages of broker-a are delivered late."),
    ),
    Case("TimersLate", [Series("rocketmq_timer_dequeue_latency_milliseconds", BROKER, "9000x20")], "9m", None),
    Case(
        "SlaveBehind",
        [Series("skyrocket_slave_lag_bytes", {**BROKER, "slave": "10.0.0.9:40000"}, "536870912x20")],
        "9m",
        Raised({**BROKER, "slave": "10.0.0.9:40000"}, "Slave 10.0.0.9:40000 of broker-a is 512MiB behind."),
    ),
    Case("SlaveBehind", [Series("skyrocket_slave_lag_bytes", {**BROKER, "slave": "10.0.0.9:40000"}, "1024x20")], "9m", None),
    Case("SlaveGone", [Series("skyrocket_slaves", BROKER, "2x20 1x20")], "30m", Raised(BROKER, "broker-a has lost a slave.")),
    Case("SlaveGone", [Series("skyrocket_slaves", BROKER, "1x10 0x2 1x20")], "30m", None),
    Case(
        "MasterSilent",
        [Series("skyrocket_master_silent_seconds", BROKER, "1x5 60+60x5")],
        "9m",
        Raised(BROKER, "A slave of broker-a hears nothing of its master."),
    ),
    Case("MasterSilent", [Series("skyrocket_master_silent_seconds", BROKER, "5x20")], "9m", None),
    Case(
        "GroupWithoutLeader",
        [Series("skyrocket_dledger_has_leader", BROKER, "1x5 0x5")],
        "9m",
        Raised(BROKER, "A node of broker-a knows no leader."),
    ),
    Case("GroupWithoutLeader", [Series("skyrocket_dledger_has_leader", BROKER, "1x5 0 1x5")], "9m", None),
    Case(
        "Elections",
        [Series("skyrocket_dledger_term", BROKER, "1+1x20")],
        "9m",
        Raised(BROKER, "The group broker-a elects a leader again and again."),
    ),
    Case("Elections", [Series("skyrocket_dledger_term", BROKER, "1x5 2x5 3x5")], "15m", None),
    Case(
        "DescriptorsScarce",
        [Series("process_open_fds", BROKER, "900x20"), Series("process_max_fds", BROKER, "1000x20")],
        "9m",
        Raised(BROKER, "10.0.0.7:5557 has 90% of its descriptors open."),
    ),
    Case(
        "DescriptorsScarce",
        [Series("process_open_fds", BROKER, "500x20"), Series("process_max_fds", BROKER, "1000x20")],
        "9m",
        None,
    ),
    Case(
        "BrokersMissing",
        [UP, Series("skyrocket_nameserver_brokers", KNOWN, "3x20 2x20")],
        "30m",
        Raised(KNOWN, "The nameserver 10.0.0.8:5557 knows fewer brokers than within the last hour."),
    ),
    Case(
        "BrokersMissing",  # the last broker of a cluster takes the series with it
        [UP, Series("skyrocket_nameserver_brokers", KNOWN, "1x20 _x40")],
        "35m",
        Raised(KNOWN, "The nameserver 10.0.0.8:5557 knows fewer brokers than within the last hour."),
    ),
    Case("BrokersMissing", [UP, Series("skyrocket_nameserver_brokers", KNOWN, "2x20 3x20")], "30m", None),
    Case(
        "BrokersMissing",  # of a nameserver that is down nobody knows; ServerDown is raised
        [UP._replace(values="1x20 0x40"), Series("skyrocket_nameserver_brokers", KNOWN, "1x20 _x40")],
        "35m",
        None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one.alert}-{'raised' if one.raised else 'silent'}")
def test_an_alert_is_raised_when_it_should_be_and_silent_otherwise(case: Case, tmp_path: Path):
    need("promtool")
    (rule,) = (one for one in alerts() if one.name == case.alert)
    expected = []
    if case.raised:
        labels = {**case.raised.labels, "severity": rule.severity}
        expected = [{"exp_labels": labels, "exp_annotations": {"summary": case.raised.summary, "runbook": rule.runbook}}]
    test = {
        "interval": "1m",
        "input_series": [one.document for one in case.series],
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}],
    }
    file = tmp_path / "alerts_test.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]}))  # YAML, too
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test_that_raises_it_and_one_that_does_not():
    names = {one.name for one in alerts()}
    assert {case.alert for case in CASES if case.raised} == names
    assert {case.alert for case in CASES if not case.raised} == names
