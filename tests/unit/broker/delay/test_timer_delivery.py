from __future__ import annotations

import errno
from random import Random

import pytest

from skyrocket.broker.delay.timer_delivery import PACE_MS
from skyrocket.net.router import RefusedError
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import TIMER_TOPIC
from tests.support.brokers.timer_world import BEGIN_MS, ROLL_WINDOW_SLOTS, SLOTS, TimerWorld

DAY_MS = 86_400_000


@pytest.fixture
def world() -> TimerWorld:
    return TimerWorld()


def test_without_timers_there_are_no_files_and_nothing_to_do(world: TimerWorld):
    assert world.delivery.check(BEGIN_MS) is None
    assert not any("timer" in path for path in world.disk.nodes)


def test_each_is_delivered_at_its_millisecond_and_never_before(world: TimerWorld):
    due = {f"key{i}": BEGIN_MS + i * 317 for i in range(1, 40)}
    for key, due_ms in sorted(due.items(), reverse=True):
        world.at(key, due_ms)
    world.pass_ms(20_000)
    delivered = world.delivered()
    assert [key for key, _ in delivered] == sorted(due, key=due.__getitem__)
    assert {at_ms - due[key] for key, at_ms in delivered} == {0}


def test_what_comes_due_close_together_is_delivered_together_a_little_later(world: TimerWorld):
    for i in range(100):
        world.at(f"key{i}", BEGIN_MS + 5_000 + i)
    world.pass_ms(10_000)
    times = [at_ms - BEGIN_MS - 5_000 for _, at_ms in world.delivered()]
    assert len(times) == 100
    assert len(set(times)) <= 100 // PACE_MS + 2
    assert all(0 <= at - i <= PACE_MS for i, at in enumerate(times))


@pytest.mark.parametrize(
    ("properties", "after_ms"),
    [
        ({"TIMER_DELAY_MS": "2300"}, 2_300),
        ({"TIMER_DELAY_SEC": "2"}, 2_000),
        ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": "1"}, 2_000),
        ({"TIMER_DELAY_MS": "40", "TIMER_DELIVER_MS": str(BEGIN_MS + 60_000)}, 40),
        ({"TIMER_DELIVER_MS": str(BEGIN_MS + 21)}, 21),
        ({"TIMER_DELIVER_MS": str(BEGIN_MS + 3_000)}, 3_000),
    ],
)
def test_a_time_is_said_in_any_of_three_ways(world: TimerWorld, properties: dict[str, str], after_ms: int):
    world.send("key", **properties)
    world.pass_ms(10_000)
    assert world.delivered() == [("key", BEGIN_MS + after_ms)]


@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": str(BEGIN_MS)}, {"TIMER_DELAY_MS": "-5"}, {"TIMER_DELAY_SEC": "0"}])
def test_a_time_in_the_past_is_no_timer(world: TimerWorld, properties: dict[str, str]):
    world.send("key", **properties)
    assert world.delivered() == [("key", BEGIN_MS)]


def test_a_delay_level_counts_more_than_a_time(world: TimerWorld):
    assert world.send("key", TIMER_DELAY_SEC="5", DELAY="1") == {"UNIQ_KEY": "key", "DELAY": "1"}


@pytest.mark.parametrize(
    ("properties", "settings", "code", "words"),
    [
        ({"TIMER_DELAY_SEC": "259201"}, {}, ResponseCode.MESSAGE_ILLEGAL, "259200 seconds"),
        ({"TIMER_DELAY_SEC": "soon"}, {}, ResponseCode.MESSAGE_ILLEGAL, "whole number"),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "x"}, {}, ResponseCode.MESSAGE_ILLEGAL, "once it is due"),
        ({"TIMER_DELAY_SEC": "2"}, {"timers_enabled": False}, ResponseCode.SYSTEM_ERROR, "timerWheelEnable"),
    ],
)
def test_what_cannot_wait_is_refused_with_the_reason(
    properties: dict[str, str], settings: dict[str, object], code: ResponseCode, words: str
):
    with pytest.raises(RefusedError, match=words) as refused:
        TimerWorld(**settings).send("key", **properties)
    assert refused.value.code == code


def test_three_days_ahead_is_not_too_far(world: TimerWorld):
    assert world.send("key", TIMER_DELAY_SEC=str(3 * 24 * 3600))["TIMER_OUT_MS"] == str(BEGIN_MS + 3 * DAY_MS - 1_000)


def test_more_than_a_slot_may_have_is_refused():
    world = TimerWorld(timer_slot_messages_max=2)
    for i in range(3):
        world.at(f"key{i}", BEGIN_MS + 5_500)
        world.pass_ms(PACE_MS)
    with pytest.raises(RefusedError, match="at the same time"):
        world.at("one too many", BEGIN_MS + 5_700)
    world.at("at another time", BEGIN_MS + 6_100)


def test_a_delivered_message_is_what_was_sent_with_the_properties_that_apache_gives_it(world: TimerWorld):
    world.send("key", TIMER_DELAY_MS="1500", TAGS="red", KEYS="a b", mine="x")
    world.pass_ms(5_000)
    [record] = world.records()
    assert (record.topic, record.queue_id, record.body) == ("orders", 1, b"key")
    assert decode_properties(record.properties) == {
        "UNIQ_KEY": "key",
        "TIMER_DELAY_MS": "1500",
        "TAGS": "red",
        "KEYS": "a b",
        "mine": "x",
        "TIMER_OUT_MS": str(BEGIN_MS + 1_000),
        "REAL_TOPIC": "orders",
        "REAL_QID": "1",
        "TIMER_ENQUEUE_MS": str(BEGIN_MS),
        "TIMER_DEQUEUE_MS": str(BEGIN_MS + 1_500),
    }


def test_what_is_recalled_is_not_delivered(world: TimerWorld):
    waiting = {key: world.at(key, BEGIN_MS + 5_300) for key in ("a", "b", "c")}
    world.pass_ms(4_000)
    world.recall("b", waiting["b"])
    world.pass_ms(4_000)
    assert world.keys == ["a", "c"]


def test_a_recall_holds_across_a_crash_that_outlasts_the_message(world: TimerWorld):
    waiting = world.at("key", BEGIN_MS + 5_300)
    world.recall("key", waiting)
    world.kill()  # before either was taken in
    world.now_ms += 60_000
    world.pass_ms(2_000)
    assert world.keys == []
    world.restart()
    world.pass_ms(2_000)
    assert world.keys == []


def test_a_recall_that_names_the_topic_too_is_understood(world: TimerWorld):
    waiting = world.at("key", BEGIN_MS + 5_300)
    world.send("key", TIMER_DELIVER_MS=str(int(waiting["TIMER_OUT_MS"]) + 1), TIMER_DEL_UNIQKEY="orders+key")
    world.pass_ms(9_000)
    assert world.keys == []


def test_beyond_the_window_a_message_is_stored_anew_and_delivered_at_its_time(world: TimerWorld):
    seconds = 3 * ROLL_WINDOW_SLOTS + 10
    world.send("by delay", TIMER_DELAY_MS=str(seconds * 1_000 + 123))
    world.at("by time", BEGIN_MS + seconds * 1_000 + 456)
    world.pass_ms(400_000)
    assert world.delivered() == [("by delay", BEGIN_MS + seconds * 1_000 + 123), ("by time", BEGIN_MS + seconds * 1_000 + 456)]
    rolls = decode_properties(world.records()[0].properties)["TIMER_ROLL_TIMES"]
    assert int(rolls) == len(world.records(TIMER_TOPIC, 0)) // 2 - 1 >= 2


def test_a_recalled_message_is_rolled_with_its_recall_and_not_delivered(world: TimerWorld):
    waiting = world.at("key", BEGIN_MS + 2 * ROLL_WINDOW_SLOTS * 1_000)
    world.recall("key", waiting)
    world.pass_ms(200_000)
    assert world.keys == []


def test_what_was_due_while_the_broker_was_away_is_delivered_when_it_is_back(world: TimerWorld):
    for i in range(20):
        world.at(f"key{i:02}", BEGIN_MS + 1_000 + 700 * i)
    world.pass_ms(3_000)
    before = world.keys
    world.stop()
    world.now_ms += 30_000
    world.start()
    world.pass_ms(100)
    assert world.keys == sorted([*before, *[f"key{i:02}" for i in range(len(before), 20)]]), "each once"


def test_away_for_longer_than_the_wheel_goes_round_nothing_is_lost(world: TimerWorld):
    for i in range(5):
        world.at(f"key{i}", BEGIN_MS + 10_000 + 9_000 * i)
    world.pass_ms(22_000)
    world.restart()
    world.stop()
    world.now_ms += 5 * SLOTS * 1_000
    world.start()
    world.pass_ms(SLOTS * 1_000)
    assert sorted(world.keys) == [f"key{i}" for i in range(5)]


def test_a_clean_restart_goes_on_within_the_second(world: TimerWorld):
    for i in range(10):
        world.at(f"key{i}", BEGIN_MS + 5_050 + 100 * i)
    world.go_to(BEGIN_MS + 5_500)
    assert len(world.keys) == 5
    world.restart()
    world.at("new", BEGIN_MS + 5_900)
    world.pass_ms(3_000)
    assert sorted(world.keys) == sorted([f"key{i}" for i in range(10)] + ["new"])
    assert world.index.waiting == 0


@pytest.mark.parametrize("seed", range(5))
def test_after_a_power_cut_nothing_on_disk_is_lost_or_early(world: TimerWorld, seed: int):
    due = {f"key{i}": BEGIN_MS + 1_000 + 37 * i for i in range(300)}
    for key, due_ms in due.items():
        world.at(key, due_ms)
    world.pass_ms(4_000)
    world.store.flush()
    world.keep()
    world.pass_ms(2_000)
    world.cut_power(Random(seed))
    world.pass_ms(20_000)
    assert set(world.keys) == set(due)
    assert all(at_ms >= due[key] for key, at_ms in world.delivered())


def test_progress_is_not_kept_before_the_deliveries_are_on_disk(world: TimerWorld):
    world.at("key", BEGIN_MS + 1_500)
    world.pass_ms(1_000)
    world.store.flush()
    assert world.keep()
    world.pass_ms(3_000)
    assert world.keys == ["key"]
    assert not world.keep(), "the delivery is not flushed"
    world.store.flush()
    assert world.keep()


def test_progress_is_kept_once_more_when_a_second_with_deliveries_is_over(world: TimerWorld):
    """Apache's broker, which may come next, would deliver the whole second again."""
    world.at("key", BEGIN_MS + 1_200)
    world.at("later", BEGIN_MS + 9_000)
    world.go_to(BEGIN_MS + 1_300)
    world.store.flush()
    assert world.keep()
    world.go_to(BEGIN_MS + 2_100)
    assert world.keep()
    world.go_to(BEGIN_MS + 5_000)
    assert not world.keep(), "nothing came"


@pytest.mark.parametrize("stops", [False, True])
def test_a_full_disk_that_takes_no_progress_makes_nothing_be_delivered_twice(world: TimerWorld, stops: bool):
    for i in range(50):
        world.at(f"key{i}", BEGIN_MS + 1_010 + 90 * i)
    world.pass_ms(2_500)  # in the middle of a second
    delivered = len(world.keys)
    assert 0 < delivered < 50
    world.store.flush()
    world.delivery.plan_checkpoint(world.now_ms)
    job = world.delivery.begin_checkpoint()
    assert job is not None

    def refuse(_checkpoint: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write, job._write = job._write, refuse
    with pytest.raises(OSError, match="No space") as refused:
        job.run()
    world.delivery.fail_checkpoint(job, refused.value)
    world.check()
    assert len(world.keys) == delivered
    job._write = write
    assert world.keep(), "the next checkpoint has what this one has not"
    if stops:
        world.restart()
    world.pass_ms(10_000)
    assert sorted(world.keys) == sorted(f"key{i}" for i in range(50))


@pytest.mark.parametrize("damage", ["timerlog", "timerwheel", "timercheck"])
def test_files_that_are_gone_are_made_again_from_the_topic(world: TimerWorld, damage: str):
    for i in range(200):
        world.at(f"key{i}", BEGIN_MS + 1_000 + 97 * i)
    world.pass_ms(5_000)
    world.stop()
    for path in [path for path in world.disk.nodes if damage in path]:
        del world.disk.nodes[path]
    world.start()
    world.pass_ms(30_000)
    assert set(world.keys) == {f"key{i}" for i in range(200)}
    if damage != "timercheck":  # without it nobody knows what was delivered
        assert len(world.keys) <= 200 + 1_000 // 97 + 1


@pytest.mark.parametrize("seed", range(20))
def test_a_timer_log_that_is_damaged_while_it_is_used_is_made_again(world: TimerWorld, seed: int):
    rng = Random(seed)
    for i in range(200):
        world.at(f"key{i}", BEGIN_MS + 1_000 + 97 * i)
    world.pass_ms(3_000)
    log = world.disk.nodes["/store/timerlog/" + "0" * 20].content
    for _ in range(10):
        log[rng.randrange(len(log))] ^= 1 << rng.randrange(8)
    world.pass_ms(30_000)
    world.restart()
    world.pass_ms(30_000)
    assert set(world.keys) == {f"key{i}" for i in range(200)}


def test_a_message_in_the_topic_that_is_no_timer_holds_nothing_up(world: TimerWorld):
    half_right = b"TIMER_OUT_MS\x01x\x02REAL_TOPIC\x01T\x02"
    world.internal_writer.write([Record(TIMER_TOPIC, b"junk"), Record(TIMER_TOPIC, b"junk", half_right)])
    world.at("key", BEGIN_MS + 1_500)
    world.pass_ms(3_000)
    assert world.keys == ["key"]


def test_figures_tell_how_many_wait(world: TimerWorld):
    for i in range(7):
        world.at(f"key{i}", BEGIN_MS + 50_000 + i)
    assert world.delivery.figures(world.now_ms)["timerOffsetBehind"] == "0"
    world.pass_ms(1_000)
    assert world.delivery.figures(world.now_ms)["timerCongestNum"] == "7"
    assert world.metrics.snapshot().timing_count["orders"].count == 7
    world.restart()
    world.pass_ms(1_000)
    assert world.delivery.figures(world.now_ms)["timerCongestNum"] == "7"
    world.kill()
    world.pass_ms(1_000)
    assert world.delivery.figures(world.now_ms)["timerCongestNum"] == "7"
