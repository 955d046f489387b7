"""The source's options, and the error for each invalid value."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from skyrocket.spark.columns import COLUMNS
from skyrocket.spark.errors import OptionError, SparkSourceError
from skyrocket.spark.options.offset_spec import EARLIEST, LATEST, OffsetKind
from skyrocket.spark.options.source_options import SOURCE, Mode, SourceOptions, source_options

LEAST = {"nameserver": "127.0.0.1:9876", "subscribe": "orders"}


def read(mode: Mode | None = "batch", **options: str) -> SourceOptions:
    return source_options({**LEAST, **options}, mode)


def test_batch_starts_at_earliest_and_stream_at_latest_by_default():
    assert read("batch").starting.value == EARLIEST
    assert read("batch").ending.value == LATEST
    assert read("stream").starting.value == LATEST


def test_option_names_are_case_insensitive():
    assert source_options({"NameServer": "a:1", "SUBSCRIBE": "orders", "minpartitions": "3"}).min_partitions == 3


def test_options_are_equal_after_pickling():
    options = read(tags="a || b", startingOffsets='{"orders":{"0":7}}', secretKey="s", accessKey="a")
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(pickle.loads(pickle.dumps(options)))


def test_repr_does_not_show_secrets():
    assert "hidden" not in repr(read(accessKey="a", secretKey="hidden", securityToken="hidden"))


def test_default_columns_are_all_but_properties():
    assert read().columns == tuple(name for name in COLUMNS if name != "properties")
    assert "properties" in read(includeProperties="true").columns
    assert read(columns="body, queueOffset").columns == ("body", "queueOffset")


def test_topics_are_selected_by_name_pattern_or_assignment():
    assert read(subscribe="a,b").topics == ("a", "b")
    pattern = source_options({"nameserver": "a:1", "subscribePattern": "or.*"})
    assert (pattern.pattern, pattern.selected_by) == ("or.*", "subscribePattern")
    assign = source_options({"nameserver": "a:1", "assign": '{"orders":["broker-a:1", 0]}'})
    assert (assign.assigned, assign.selected_by) == ((("orders", ("0", "broker-a:1")),), "assign")


def test_timestamp_overrides_timestamps_by_queue_and_those_override_offsets():
    all_three = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingTimestamp": "9"}
    assert read(**all_three).starting == ("startingTimestamp", OffsetKind.TIMESTAMP, 9)
    del all_three["startingTimestamp"]
    assert read(**all_three).starting == ("startingOffsetsByTimestamp", OffsetKind.TIMESTAMP, (("orders", (("0", 5),)),))
    assert read(endingTimestamp="9", endingOffsets="latest").ending == ("endingTimestamp", OffsetKind.TIMESTAMP, 9)


def test_group_name_depends_on_what_the_query_reads():
    assert read().group == read().group
    assert read().group != read(subscribe="users").group
    assert read(groupIdPrefix="mine").group.startswith("mine-")
    assert read(groupId="exactly-this").group == "exactly-this"


def test_docs_name_every_option_and_column():
    assert all(row.meaning for row in SOURCE)
    document = (Path(__file__).parents[4] / "docs" / "spark.md").read_text()
    assert [row.name for row in SOURCE if f"`{row.name}`" not in document] == []
    assert [name for name in COLUMNS if f"| `{name}` |" not in document] == []


@pytest.mark.parametrize(
    ("mode", "options", "sentence"),
    [
        ("batch", {"subscribe": ""}, "Option 'subscribe' is ''"),
        ("batch", {"subscribe": "a b"}, "Option 'subscribe' names topic 'a b', which cannot exist"),
        ("batch", {"assign": '{"orders":[0]}'}, "Options 'subscribe' and 'assign' both select what to read"),
        ("batch", {"subscripe": "x"}, "Option 'subscripe' does not exist for the source rocketmq. Did you mean 'subscribe'?"),
        ("batch", {"startingOffsets": "latest"}, "Option 'startingOffsets' cannot be latest in a batch"),
        ("batch", {"startingOffsets": '{"orders":{"0":-1}}'}, "cannot be latest (-1) for orders 0 in a batch"),
        ("batch", {"startingOffsets": "soon"}, "Option 'startingOffsets' is 'soon'. It must be earliest, latest or JSON"),
        ("batch", {"startingOffsets": '{"orders":{"0":-3}}'}, "the number of orders 0 is not a whole number of at least -2"),
        ("batch", {"startingOffsets": '{"orders":{"zero":3}}'}, "'zero' of topic 'orders' is not a queue"),
        ("batch", {"startingOffsets": '{"orders":3}'}, "topic 'orders' has no queues"),
        ("batch", {"endingOffsets": "earliest"}, "Option 'endingOffsets' cannot be earliest"),
        ("batch", {"endingOffsets": '{"orders":{"0":-2}}'}, "cannot be earliest (-2) for orders 0"),
        (
            "batch",
            {"maxOffsetsPerTrigger": "5"},
            "Option 'maxOffsetsPerTrigger' has no effect on a batch: it is for a stream only.",
        ),
        ("batch", {"commitGroup": "g"}, "Option 'commitGroup' has no effect on a batch"),
        ("stream", {"endingOffsets": "latest"}, "Option 'endingOffsets' has no effect on a stream: it is for a batch only."),
        ("stream", {"ENDINGTIMESTAMP": "1"}, "Option 'endingTimestamp' has no effect on a stream"),
        (
            "stream",
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "Option 'minOffsetsPerTrigger' is 9, which is more than option 'maxOffsetsPerTrigger', which is 5",
        ),
        ("stream", {"maxTriggerDelay": "soon"}, "Option 'maxTriggerDelay' is 'soon'. It must be a duration"),
        ("batch", {"tags": "a", "sql": "b = 1"}, "Options 'tags' and 'sql' are both given"),
        ("batch", {"tags": "||"}, "Option 'tags'"),
        (
            "batch",
            {"startingTimestamp": "-1"},
            "Option 'startingTimestamp' is '-1'. It must be a whole number of at least 0",
        ),
        ("batch", {"startingOffsetsByTimestampStrategy": "guess"}, "It must be error or latest"),
        ("batch", {"minPartitions": "0"}, "Option 'minPartitions'"),
        ("batch", {"maxRecordsPerPartition": "none"}, "Option 'maxRecordsPerPartition'"),
        ("batch", {"failOnDataLoss": "maybe"}, "Option 'failOnDataLoss' is 'maybe'. It must be true or false."),
        ("batch", {"columns": "body,title"}, "Option 'columns' names title"),
        ("batch", {"groupId": "no blanks"}, "Option 'groupId' gives the group name 'no blanks', which is not valid"),
        ("batch", {"groupIdPrefix": "no blanks"}, "Option 'groupIdPrefix'"),
        ("stream", {"commitGroup": "no blanks"}, "Option 'commitGroup'"),
        ("batch", {"fetchMessages": "0"}, "Option 'fetchMessages'"),
        ("batch", {"accessKey": "a"}, "Options 'accessKey' and 'secretKey' belong together"),
        ("batch", {"nameserver": "nowhere"}, "Option 'nameserver'"),
    ],
)
def test_invalid_option_is_refused_with_a_clear_message(mode: Mode, options: dict[str, str], sentence: str):
    with pytest.raises(SparkSourceError) as caught:
        read(mode, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_pattern_is_refused():
    with pytest.raises(OptionError, match=r"Option 'subscribePattern' is 'or\('\. It must be a regular expression"):
        source_options({"nameserver": "a:1", "subscribePattern": "or("})


def test_query_without_a_selection_is_refused():
    with pytest.raises(OptionError, match="Give one of the options 'subscribe', 'subscribePattern' and 'assign'"):
        source_options({"nameserver": "a:1"})


def test_without_a_mode_options_of_batches_and_streams_are_accepted():
    assert source_options({**LEAST, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}).max_offsets == 5
