"""Dead letters from columns, their causes, their own properties, and the selection of some."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skyrocket.pipelines.deadletters.letters import COLUMNS, letters_of
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.spark.columns import arrow_schema
from tests.unit.pipelines.deadletters.letters import NOW_MS, letter


def batch(properties: dict[str, str]) -> pa.RecordBatch:
    row = {
        "topic": "%DLQ%coupons",
        "broker": "broker-a",
        "queueId": 0,
        "queueOffset": 3,
        "physicalOffset": 512,
        "storeTimestamp": 5_000_000,
        "bornTimestamp": 4_000_000,
        "bornHost": "127.0.0.1:1",
        "msgId": "M1",
        "tags": None,
        "keys": [],
        "reconsumeTimes": 2,
        "properties": list(properties.items()),
        "body": b"x",
    }
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema(COLUMNS))


def test_a_letter_is_made_of_the_columns():
    (found,) = letters_of(batch({"RETRY_TOPIC": "shop%orders", "colour": "red"}), "shop")
    assert (found.letter_id, found.origin_topic, found.died_ms, found.born_ms) == ("broker-a:512:M1", "orders", 5_000, 4_000)
    assert (found.tag, found.keys, found.retries, found.body) == ("", (), 2, b"x")


def test_the_origin_that_a_broker_wrote_for_dead_letters_comes_first():
    (found,) = letters_of(batch({"RETRY_TOPIC": "%RETRY%coupons", "DLQ_ORIGIN_TOPIC": "orders"}))
    assert found.origin_topic == "orders"
    (unknown,) = letters_of(batch({}))
    assert unknown.origin_topic == ""


@pytest.mark.parametrize(
    ("properties", "names", "cause"),
    [
        ({"exception": "ValueError"}, (), "ValueError"),
        ({"X_EXCEPTION_MESSAGE": "no stock"}, (), "no stock"),
        ({"Error": "e", "why": "w"}, ("WHY",), "w"),
        ({"colour": "red"}, (), ""),
    ],
)
def test_causes_come_from_properties(properties: dict[str, str], names: tuple[str, ...], cause: str):
    assert letter(properties=properties).cause(names) == cause


def test_own_properties_are_the_applications():
    system = {
        "UNIQ_KEY": "u",
        "RETRY_TOPIC": "t",
        "DELAY": "3",
        "SR_PID": "p",
        "SR_SEQ": "7",
        "__SHARDINGKEY": "s",
        "WAIT": "false",
    }
    earlier = {"SR_RESENT_BY": "ann", "SR_RESENT_LETTER": "broker-a:1"}
    assert letter(properties={**system, **earlier, "colour": "red"}).user_properties == {"colour": "red"}


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (LetterSelection(), [0, 1, 2]),
        (LetterSelection(ids=frozenset({"M1", "broker-a:1002:M2"})), [1, 2]),
        (LetterSelection(ids=frozenset({"M1", "broker-a:1002"})), [1, 2]),  # as earlier versions named it
        (LetterSelection(keys=frozenset({"o-0"})), [0]),
        (LetterSelection(tags=frozenset({"late"})), [2]),
        (LetterSelection(topics=frozenset({"orders"})), [0, 1]),
        (LetterSelection(since_ms=NOW_MS), [2]),
        (LetterSelection(until_ms=NOW_MS), [0, 1]),
        (LetterSelection(ids=frozenset({"M1", "M2"}), tags=frozenset({"paid"})), [1]),
    ],
)
def test_selections(selection: LetterSelection, chosen: list[int]):
    letters = [letter(0), letter(1), letter(2, tag="late", origin_topic="bills", died_ms=NOW_MS)]
    assert [one.queue_offset for one in letters if selection.chooses(one)] == chosen
    assert selection.is_everything == (len(chosen) == 3)
