"""Where to begin and end: what options wish for each queue, and when they do not fit the queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError, OptionError
from skyrocket.spark.options.offset_json import offsets_json, offsets_of, offsets_text
from skyrocket.spark.options.offset_spec import (
    EARLIEST,
    LATEST,
    Kind,
    OffsetSpec,
    Wish,
    assigned,
    earliest,
    moments,
    named,
    offsets,
    unknown_keys,
    wishes,
)

A0, A1, B0 = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1), Queue("orders", "broker-b", 0)
QUEUES = [A0, A1, B0]


def spec(text: str) -> OffsetSpec:
    return OffsetSpec("startingOffsets", Kind.OFFSET, offsets(text))


def test_one_word_is_for_every_queue():
    assert wishes(spec(" Earliest "), QUEUES) == dict.fromkeys(QUEUES, Wish(Kind.OFFSET, EARLIEST))
    assert wishes(earliest("x"), []) == {}
    assert offsets("latest") == LATEST


def test_each_queue_can_have_its_own_offset():
    found = wishes(spec('{"orders":{"broker-a:0":23,"broker-a:1":-2,"broker-b:0":-1}}'), QUEUES)
    assert {queue: wish.value for queue, wish in found.items()} == {A0: 23, A1: EARLIEST, B0: LATEST}


def test_a_number_alone_is_the_queue_at_every_broker_and_a_full_name_goes_before_it():
    found = wishes(spec('{"orders":{"0":5,"1":6,"broker-b:0":7}}'), QUEUES)
    assert {queue: wish.value for queue, wish in found.items()} == {A0: 5, A1: 6, B0: 7}


def test_moments_are_read_like_offsets():
    assert moments('{"orders":{"0":1700000000000}}') == (("orders", (("0", 1_700_000_000_000),)),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"orders":{"0":5}}', "Option 'startingOffsets' says nothing of queue 1 of orders at broker-a"),
        ('{"orders":{"0":5,"1":5},"users":{"0":5}}', "names topic 'users', which is not read; those are: orders"),
        (
            '{"orders":{"0":5,"1":5,"7":5}}',
            "names orders 7, but the queues that are read are: broker-a:0, broker-a:1, broker-b:0",
        ),
        ('{"orders":{"0":5,"1":5,"broker-c:0":5}}', "names orders broker-c:0"),
    ],
)
def test_offsets_have_to_fit_the_queues(text: str, sentence: str):
    with pytest.raises(OptionError) as told:
        wishes(spec(text), QUEUES)
    assert sentence in str(told.value)


def test_queues_are_assigned_by_name_or_number():
    ((topic, keys),) = assigned('{"orders":["broker-a:1", 0, "0"]}')
    assert (topic, keys) == ("orders", ("0", "broker-a:1"))
    assert [queue for queue in QUEUES if named(queue, keys)] == QUEUES
    assert unknown_keys(("2", "broker-a:1", "broker-b:1"), QUEUES) == ["2", "broker-b:1"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"orders":[]}', '{"orders":[true]}', '{"orders":["a"]}', '{"orders":"0"}'])
def test_what_assigns_nothing_is_refused(text: str):
    with pytest.raises(ValueError, match=r'JSON such as {"orders":'):
        assigned(text)


# --- the checkpoint's offsets

queues = st.builds(
    Queue, st.sampled_from(["orders", "users", "%RETRY%g"]), st.sampled_from(["broker-a", "b:c"]), st.integers(0, 30)
)


@given(st.dictionaries(queues, st.integers(0, 2**62)), st.randoms())
def test_offsets_are_written_in_one_order_however_they_came(found: dict[Queue, int], random):
    shuffled = list(found.items())
    random.shuffle(shuffled)
    assert offsets_text(dict(shuffled)) == offsets_text(found)
    assert offsets_of(offsets_json(found)) == found


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
        offsets_of(damaged)
