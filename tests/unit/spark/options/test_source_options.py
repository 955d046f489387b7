"""Options of the source: what they come to, and the sentence for each that cannot be meant."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from skyrocket.spark.columns import COLUMNS
from skyrocket.spark.errors import OptionError, SparkSourceError
from skyrocket.spark.options.offset_spec import EARLIEST, LATEST, Kind
from skyrocket.spark.options.source_options import SOURCE, Mode, SourceOptions, source_options

LEAST = {"nameserver": "127.0.0.1:9876", "subscribe": "orders"}


def read(mode: Mode | None = "batch", **options: str) -> SourceOptions:
    return source_options({**LEAST, **options}, mode)


def test_a_batch_reads_everything_that_is_there_and_a_stream_what_is_new():
    assert read("batch").starting.value == EARLIEST
    assert read("batch").ending.value == LATEST
    assert read("stream").starting.value == LATEST


def test_names_of_options_have_no_case():
    assert source_options({"NameServer": "a:1", "SUBSCRIBE": "orders", "minpartitions": "3"}).min_partitions == 3


def test_options_travel_to_tasks_as_they_are():
    options = read(tags="a || b", startingOffsets='{"orders":{"0":7}}', secretKey="s", accessKey="a")
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(pickle.loads(pickle.dumps(options)))


def test_the_secret_is_not_shown():
    assert "geheim" not in repr(read(accessKey="a", secretKey="geheim", securityToken="geheim"))


def test_all_columns_but_the_properties_come_unless_one_says_otherwise():
    assert read().columns == tuple(name for name in COLUMNS if name != "properties")
    assert "properties" in read(includeProperties="true").columns
    assert read(columns="body, queueOffset").columns == ("body", "queueOffset")


def test_topics_can_be_named_matched_or_assigned():
    assert read(subscribe="a,b").topics == ("a", "b")
    pattern = source_options({"nameserver": "a:1", "subscribePattern": "or.*"})
    assert (pattern.pattern, pattern.selected_by) == ("or.*", "subscribePattern")
    assign = source_options({"nameserver": "a:1", "assign": '{"orders":["broker-a:1", 0]}'})
    assert (assign.assigned, assign.selected_by) == ((("orders", ("0", "broker-a:1")),), "assign")


def test_one_moment_goes_before_moments_and_moments_before_offsets():
    all_three = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingTimestamp": "9"}
    assert read(**all_three).starting == ("startingTimestamp", Kind.MOMENT, 9)
    del all_three["startingTimestamp"]
    assert read(**all_three).starting == ("startingOffsetsByTimestamp", Kind.MOMENT, (("orders", (("0", 5),)),))
    assert read(endingTimestamp="9", endingOffsets="latest").ending == ("endingTimestamp", Kind.MOMENT, 9)


def test_a_query_has_the_same_group_each_time_and_another_has_another():
    assert read().group == read().group
    assert read().group != read(subscribe="users").group
    assert read(groupIdPrefix="mine").group.startswith("mine-")
    assert read(groupId="exactly-this").group == "exactly-this"


def test_every_option_is_told_in_the_documents():
    assert all(row.meaning for row in SOURCE)
    told = (Path(__file__).parents[4] / "docs" / "spark.md").read_text()
    assert [row.name for row in SOURCE if f"`{row.name}`" not in told] == []
    assert [name for name in COLUMNS if f"| `{name}` |" not in told] == []


@pytest.mark.parametrize(
    ("mode", "options", "sentence"),
    [
        ("batch", {"subscribe": ""}, "Option 'subscribe' is ''"),
        ("batch", {"subscribe": "a b"}, "nobody can read topic 'a b'"),
        ("batch", {"assign": '{"orders":[0]}'}, "Options 'subscribe' and 'assign' both say what to read"),
        ("batch", {"subscripe": "x"}, "Option 'subscripe' is unknown to the source rocketmq; did you mean 'subscribe'?"),
        ("batch", {"startingOffsets": "latest"}, "Option 'startingOffsets' cannot be latest in a batch"),
        ("batch", {"startingOffsets": '{"orders":{"0":-1}}'}, "cannot be latest (-1) for orders 0 in a batch"),
        ("batch", {"startingOffsets": "soon"}, "Option 'startingOffsets' is 'soon', but it has to be earliest, latest or JSON"),
        ("batch", {"startingOffsets": '{"orders":{"0":-3}}'}, "orders 0 in it is not a whole number of at least -2"),
        ("batch", {"startingOffsets": '{"orders":{"zero":3}}'}, "'zero' of topic 'orders' in it is no queue"),
        ("batch", {"startingOffsets": '{"orders":3}'}, "topic 'orders' in it has no queues"),
        ("batch", {"endingOffsets": "earliest"}, "Option 'endingOffsets' cannot be earliest"),
        ("batch", {"endingOffsets": '{"orders":{"0":-2}}'}, "cannot be earliest (-2) for orders 0"),
        (
            "batch",
            {"maxOffsetsPerTrigger": "5"},
            "Option 'maxOffsetsPerTrigger' says nothing to a batch: it is for a stream only.",
        ),
        ("batch", {"commitGroup": "g"}, "Option 'commitGroup' says nothing to a batch"),
        ("stream", {"endingOffsets": "latest"}, "Option 'endingOffsets' says nothing to a stream: it is for a batch only."),
        ("stream", {"ENDINGTIMESTAMP": "1"}, "Option 'endingTimestamp' says nothing to a stream"),
        (
            "stream",
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "Option 'minOffsetsPerTrigger' is 9, more than the 5",
        ),
        ("stream", {"maxTriggerDelay": "soon"}, "Option 'maxTriggerDelay' is 'soon', but it has to be a duration"),
        ("batch", {"tags": "a", "sql": "b = 1"}, "Options 'tags' and 'sql' are two ways to filter"),
        ("batch", {"tags": "||"}, "Option 'tags'"),
        (
            "batch",
            {"startingTimestamp": "-1"},
            "Option 'startingTimestamp' is '-1', but it has to be a whole number of at least 0",
        ),
        ("batch", {"startingOffsetsByTimestampStrategy": "guess"}, "it has to be error or latest"),
        ("batch", {"minPartitions": "0"}, "Option 'minPartitions'"),
        ("batch", {"maxRecordsPerPartition": "none"}, "Option 'maxRecordsPerPartition'"),
        ("batch", {"failOnDataLoss": "maybe"}, "Option 'failOnDataLoss' is 'maybe', but it has to be true or false."),
        ("batch", {"columns": "body,title"}, "Option 'columns' asks for title"),
        ("batch", {"groupId": "no blanks"}, "Option 'groupId': 'no blanks' cannot be a group's name"),
        ("batch", {"groupIdPrefix": "no blanks"}, "Option 'groupIdPrefix'"),
        ("stream", {"commitGroup": "no blanks"}, "Option 'commitGroup'"),
        ("batch", {"fetchMessages": "0"}, "Option 'fetchMessages'"),
        ("batch", {"accessKey": "a"}, "Options 'accessKey' and 'secretKey' belong together"),
        ("batch", {"nameserver": "nowhere"}, "Option 'nameserver'"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_sentence(mode: Mode, options: dict[str, str], sentence: str):
    with pytest.raises(SparkSourceError) as told:
        read(mode, **options)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def test_a_pattern_that_is_none_is_told():
    with pytest.raises(OptionError, match="Option 'subscribePattern' is 'or\\(', but it has to be a regular expression"):
        source_options({"nameserver": "a:1", "subscribePattern": "or("})


def test_something_has_to_be_read():
    with pytest.raises(OptionError, match="'subscribe', 'subscribePattern' and 'assign' has to say what to read"):
        source_options({"nameserver": "a:1"})


def test_a_schema_is_known_before_it_is_known_whether_it_is_a_stream():
    assert source_options({**LEAST, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}).max_offsets == 5
