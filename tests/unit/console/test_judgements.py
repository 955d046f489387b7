"""What the console concludes: attention, mismatches, holders, plans of resets, consumption, what waits. Pure."""

from __future__ import annotations

from skyrocket.client import Queue
from skyrocket.client.admin import (
    BrokerState,
    ConsumerClient,
    GroupMembers,
    GroupProgress,
    MemberQueue,
    MemberState,
    QueueProgress,
)
from skyrocket.client.admin.groups import find_holders
from skyrocket.client.admin.stage_times import parse_stages
from skyrocket.console.attention import find_attention
from skyrocket.console.group_state import find_mismatches, judge_consumption
from skyrocket.console.history import BrokerSample, ClusterHistory, ClusterSample
from skyrocket.console.limits import BROKERS_SAMPLED_MAX, SAMPLES_MAX, STAGE_WINDOW_SAMPLES
from skyrocket.console.message_search import PagePosition, SearchPosition
from skyrocket.console.offset_plan import plan_offsets
from skyrocket.console.waiting import read_levels, read_timers
from skyrocket.report.parts import Severity


def state(name: str = "broker-a", broker_id: int = 0, **figures: object) -> BrokerState:
    address = f"10.0.0.{broker_id + 1}:10911"
    return BrokerState(cluster="c", broker_name=name, broker_id=broker_id, address=address, version="5.5.0", **figures)  # type: ignore[arg-type]


def test_a_healthy_cluster_needs_no_attention():
    assert find_attention([state(disk_used_percent=74.9), state(broker_id=1)]) == []


def test_the_worst_comes_first():
    found = find_attention(
        [state(disk_used_percent=80.0), state("broker-b", 1, error="refused"), state("broker-c", disk_used_percent=91.0)]
    )
    assert [one.severity for one in found] == [Severity.PROBLEM, Severity.PROBLEM, Severity.PROBLEM, Severity.WARNING]
    sentences = " ".join(one.sentence for one in found)
    assert "Broker broker-b at 10.0.0.2:10911 does not answer: refused" in sentences
    assert "Broker broker-b has no master" in sentences
    assert "91 % full" in sentences


def test_damage_and_mixed_versions_are_told():
    found = find_attention(
        [state(node="n0", damaged_entries=3), state("b").__class__(**{**_fields(state("b")), "version": "4.9.8"})]
    )
    assert "Node n0 of broker-a has 3 damaged entries" in found[0].sentence
    assert found[-1].sentence == "Brokers have different versions of RocketMQ: 4.9.8, 5.5.0."


def _fields(one: BrokerState) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


# --- history


def test_a_broker_that_did_not_answer_has_a_gap():
    history = ClusterHistory()
    history.add(ClusterSample(1_000, (BrokerSample(state(put_rate=5.0), 2.0), BrokerSample(state(broker_id=1), 3.0))))
    history.add(ClusterSample(2_000, (BrokerSample(state(error="refused"), 9.0),)))
    charts = {chart.title: chart for chart in history.charts()}
    assert [(line.name, list(line.points)) for line in charts["Messages in"].series] == [
        ("broker-a", [(1_000.0, 5.0)]),
        ("broker-a (1)", [(1_000.0, 0.0)]),
    ]
    assert charts["Time to answer the console"].series[0].points == [(1_000.0, 2.0)]


def test_stages_are_those_of_the_last_minute_and_since_the_start():
    history = ClusterHistory()
    for number in range(STAGE_WINDOW_SAMPLES + 10):  # one append a sample; they take longer from the sixth on
        quick, slow = min(number, 5), max(0, number - 5)
        text = f"0.25:{quick} 50:{slow}" if slow else f"0.25:{quick}"
        stages = parse_stages({"stageMillis_append": text, "stageMillis_flush": ""})
        history.add(ClusterSample(number, (BrokerSample(state(stages=stages), 1.0),)))
    append, flush = history.stages(state().address)
    assert (append.stage, append.recent.observed, append.recent.quantile_ms(0.5)) == ("append", STAGE_WINDOW_SAMPLES, 50)
    assert (append.whole.observed, flush.recent.observed) == (STAGE_WINDOW_SAMPLES + 9, 0)
    (line,) = history.stage_chart(state().address).series
    assert [value for _, value in line.points] == [0.25] * 5 + [50] * (STAGE_WINDOW_SAMPLES + 4)
    charts = {chart.title: chart for chart in history.charts()}
    assert charts["Time to store, 99 % at most"].series[0].points == line.points
    assert charts["Wait for a turn, 99 % at most"].series == []


def test_a_broker_without_stages_or_without_an_answer_has_none():
    history = ClusterHistory()
    stages = parse_stages({"stageMillis_append": "0.25:1"})
    assert history.stages("10.0.0.1:10911") == []
    history.add(
        ClusterSample(1, (BrokerSample(state(stages=stages), 1.0), BrokerSample(state("apache", 1, put_p99_ms=1.5), 1.0)))
    )
    history.add(ClusterSample(2, (BrokerSample(state(error="refused"), 1.0), BrokerSample(state("apache", 1), 1.0))))
    assert history.stages(state(broker_id=1).address) == []
    assert history.stage_chart(state().address).series == []
    stored = {chart.title: chart for chart in history.charts()}["Time to store, 99 % at most"]
    assert [(line.name, list(line.points)) for line in stored.series] == [("apache (1)", [(1.0, 1.5)])]


def test_history_is_bounded():
    history = ClusterHistory()
    brokers = tuple(BrokerSample(state(f"b{number:03}"), 1.0) for number in range(BROKERS_SAMPLED_MAX + 5))
    for number in range(SAMPLES_MAX + 5):
        history.add(ClusterSample(number, brokers))
    lines = history.charts()[0].series
    assert len(lines) == BROKERS_SAMPLED_MAX
    assert len(lines[0].points) == SAMPLES_MAX
    assert history.last is not None
    assert history.last.at_ms == SAMPLES_MAX + 4


# --- members


def member(client_id: str, subscriptions: dict[str, str], *queues: int) -> MemberState:
    rows = [
        MemberQueue(topic="orders", broker_name="broker-a", queue_id=one, committed_offset=0, cached_messages=0) for one in queues
    ]
    return MemberState(group="coupons", client_id=client_id, subscriptions=subscriptions, queues=rows)


def test_members_that_agree_are_fine():
    states = {name: member(name, {"orders": "*", f"%RETRY%{name}": "*"}) for name in ("a", "b")}
    assert find_mismatches(states) == []


def test_members_that_differ_are_named():
    states = {
        "a": member("a", {"orders": "paid"}),
        "b": member("b", {"orders": "*", "bills": "*"}),
        **{f"c{number}": member(f"c{number}", {"orders": "*"}) for number in range(4)},
    }
    bills, orders = find_mismatches(states)
    assert "subscription to bills" in bills
    assert "a, c0, c1 and 2 more do not subscribe to it; b subscribe to '*'" in bills
    assert "b, c0, c1 and 2 more subscribe to '*'; a subscribe to 'paid'" in orders


def test_holders_of_queues():
    states = {"a": member("a", {}, 0, 1), "b": member("b", {}, 1)}
    assert find_holders(states) == {Queue("orders", "broker-a", 0): "a", Queue("orders", "broker-a", 1): "a, b"}


# --- offsets


def test_a_plan_says_what_is_skipped_and_what_comes_again():
    queues = [Queue("orders", "broker-a", number) for number in range(3)]
    plan = plan_offsets({queues[0]: 5, queues[1]: 9, queues[2]: None}, {queues[0]: 12, queues[1]: 2, queues[2]: 7})
    assert [row.moved for row in plan.rows] == [7, -7, 0]
    assert (plan.skipped, plan.repeated) == (7, 7)


QUEUE = Queue("orders", "broker-a", 0)


def progress(committed: int, pulled: int = 0) -> GroupProgress:
    row = QueueProgress(
        topic="orders",
        broker_name="broker-a",
        queue_id=0,
        committed_offset=committed,
        end_offset=100,
        pulled_offset=pulled,
        lag=100 - committed,
        consumed_ms=0,
    )
    return GroupProgress(group="coupons", lag=100 - committed, rate=0.0, queues=[row])


def members(count: int, is_broadcasting: bool | None = False) -> GroupMembers:
    clients = [ConsumerClient(client_id=str(number), address="", language="", version="") for number in range(count)]
    return GroupMembers(group="coupons", members=clients, subscriptions={}, is_broadcasting=is_broadcasting, start=None)


def test_who_has_consumed_a_message():
    assert judge_consumption(QUEUE, 9, progress(10), members(1)).startswith("Consumed")
    assert judge_consumption(QUEUE, 10, progress(10, 20), members(1)).startswith("Being consumed")
    assert judge_consumption(QUEUE, 30, progress(10, 20), members(1)) == "Waiting: 20 messages are before it."
    assert judge_consumption(QUEUE, 30, progress(10, 20), members(0)).startswith("Not consumed: no member")
    assert judge_consumption(QUEUE._replace(queue_id=7), 30, progress(10), members(1)).startswith(
        "Not consumed: the group has no offset"
    )
    assert judge_consumption(QUEUE, 9, progress(10), members(1, True)).startswith("Not known")


# --- search and waiting


def test_the_next_page_begins_behind_the_messages_of_one_millisecond():
    position = PagePosition(SearchPosition(5, 2))
    position.passes(5)
    assert position.next == SearchPosition(5, 3)
    position.passes(6)
    position.passes(6)
    assert position.next == SearchPosition(6, 2)


def test_delay_levels_and_timers_are_read_from_runtime_figures():
    runtime = {
        "scheduleMessageOffset_3": "5,12",
        "scheduleMessageOffset_18": "0,0",
        "scheduleMessageOffset_40": "1,2",
        "scheduleMessageOffset_x": "1,2",
        "scheduleMessageOffset_4": "broken",
        "timerCongestNum": "9",
        "timerReadBehind": "-1",
    }
    assert [(one.level, one.delay, one.waiting) for one in read_levels(runtime, {})] == [
        (3, "10s", 7),
        (18, "2h", 0),
        (40, "?", 1),
    ]
    assert read_levels(runtime, {"messageDelayLevel": "1s 2s 7m"})[0].delay == "7m"
    assert read_timers(runtime) == (9, 0, 0)
