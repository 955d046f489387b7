"""Starting and ending offsets: the target of each queue, and options that do not match the queues."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError, OptionError
from skyrocket.spark.options.offset_json import offsets_json, parse_offsets_json
from skyrocket.spark.options.offset_spec import (
    EARLIEST,
    LATEST,
    OffsetKind,
    OffsetSpec,
    OffsetTarget,
    earliest,
    is_named,
    offset_targets,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
    unknown_keys,
)

A0, A1, B0 = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1), Queue("orders", "broker-b", 0)
QUEUES = [A0, A1, B0]


def spec(text: str) -> OffsetSpec:
    return OffsetSpec("startingOffsets", OffsetKind.OFFSET, parse_offsets(text))


def test_earliest_and_latest_apply_to_every_queue():
    assert offset_targets(spec(" Earliest "), QUEUES) == dict.fromkeys(QUEUES, OffsetTarget(OffsetKind.OFFSET, EARLIEST))
    assert offset_targets(earliest("x"), []) == {}
    assert parse_offsets("latest") == LATEST


def test_json_gives_each_queue_its_own_offset():
    found = offset_targets(spec('{"orders":{"broker-a:0":23,"broker-a:1":-2,"broker-b:0":-1}}'), QUEUES)
    assert {queue: target.value for queue, target in found.items()} == {A0: 23, A1: EARLIEST, B0: LATEST}


def test_queue_number_applies_to_every_broker_unless_the_full_name_is_given():
    found = offset_targets(spec('{"orders":{"0":5,"1":6,"broker-b:0":7}}'), QUEUES)
    assert {queue: target.value for queue, target in found.items()} == {A0: 5, A1: 6, B0: 7}


def test_timestamps_are_parsed_like_offsets():
    assert parse_timestamps('{"orders":{"0":1700000000000}}') == (("orders", (("0", 1_700_000_000_000),)),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"orders":{"0":5}}', "Option 'startingOffsets' does not name queue 1 of orders at broker-a"),
        ('{"orders":{"0":5,"1":5},"users":{"0":5}}', "names topic 'users', which the query does not read. It reads: orders"),
        (
            '{"orders":{"0":5,"1":5,"7":5}}',
            "names orders 7, which the query does not read. Its queues are: broker-a:0, broker-a:1, broker-b:0",
        ),
        ('{"orders":{"0":5,"1":5,"broker-c:0":5}}', "names orders broker-c:0"),
    ],
)
def test_offsets_that_do_not_name_exactly_the_queues_are_refused(text: str, sentence: str):
    with pytest.raises(OptionError) as caught:
        offset_targets(spec(text), QUEUES)
    assert sentence in str(caught.value)


def test_queues_are_assigned_by_name_or_number():
    ((topic, keys),) = parse_assignment('{"orders":["broker-a:1", 0, "0"]}')
    assert (topic, keys) == ("orders", ("0", "broker-a:1"))
    assert [queue for queue in QUEUES if is_named(queue, keys)] == QUEUES
    assert unknown_keys(("2", "broker-a:1", "broker-b:1"), QUEUES) == ["2", "broker-b:1"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"orders":[]}', '{"orders":[true]}', '{"orders":["a"]}', '{"orders":"0"}'])
def test_assignment_without_queues_is_refused(text: str):
    with pytest.raises(ValueError, match=r'JSON such as {"orders":'):
        parse_assignment(text)


# --- the checkpoint's offsets

queues = st.builds(
    Queue, st.sampled_from(["orders", "users", "%RETRY%g"]), st.sampled_from(["broker-a", "b:c"]), st.integers(0, 30)
)


@given(st.dictionaries(queues, st.integers(0, 2**62)), st.randoms())
def test_offsets_are_written_in_a_fixed_order(found: dict[Queue, int], random):
    shuffled = list(found.items())
    random.shuffle(shuffled)
    assert json.dumps(offsets_json(dict(shuffled))) == json.dumps(offsets_json(found))
    assert parse_offsets_json(offsets_json(found)) == found


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        "x",
        {"orders": 5},
        {"orders": {"0": 5}},
        {"orders": {"a:x": 5}},
        {"orders": {"a:0": "5"}},
        {"orders": {"a:0": -1}},
    ],
)
def test_offsets_of_another_source_are_refused(damaged: object):
    with pytest.raises(OffsetsError):
        parse_offsets_json(damaged)
