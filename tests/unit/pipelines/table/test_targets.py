"""Every target of the job `table`, with a feed in memory: rows, tombstones, waiting changes, rejects and offsets; crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.pipelines.errors import ArgumentError, MissingMessagesError, TargetError
from skyrocket.pipelines.json_columns.json_schema import JsonColumn, JsonColumns
from skyrocket.pipelines.table import delta_table, iceberg_table, postgresql_table
from skyrocket.pipelines.table.change_spec import ChangeSpec
from skyrocket.pipelines.table.fold import EXPECTED_VERSION, MODES
from skyrocket.pipelines.table.job import TableOptions, TableRun, TableSummary
from skyrocket.pipelines.table.target import WaitingKey
from tests.support.pipelines.change_histories import (
    TOPIC,
    Change,
    ListFeed,
    body,
    deletion,
    digest,
    histories,
    options,
    reference_fold,
    reference_waiting,
)
from tests.support.pipelines.table_targets import Place, locked

QUEUE = Queue(TOPIC, "broker-a", 0)


def run(place: Place, feed: ListFeed, wanted: TableOptions | None = None) -> TableSummary:
    with locked(place) as target:
        job = TableRun(target, wanted or options(), feed)
        job.run()
        return job.finish()


def test_a_table_shows_the_highest_version_of_each_key(place: Place):
    feed = ListFeed([[body("a", 2, name="new"), body("a", 1, name="old"), body("b", 1, name="only")]])
    done = run(place, feed)
    assert place.state() == {"a": (2, "new"), "b": (1, "only")}
    assert (done.messages, done.counts.applied, done.counts.late, done.batches) == (3, 2, 1, 1)


def test_a_second_run_takes_what_is_new_and_a_third_nothing(place: Place):
    feed = ListFeed([[body("a", 1, name="x"), body("a", 2, name="y")], [body("b", 1, name="x")]], limits=[1, 1])
    counts = []
    for limits in ([1, 1], [2, 1], [2, 1]):
        feed.limits = limits
        counts.append(run(place, feed).messages)
    assert counts == [2, 1, 0]
    assert place.state() == {"a": (2, "y"), "b": (1, "x")}


def test_a_deleted_row_stays_as_a_tombstone_so_that_late_changes_change_nothing(place: Place):
    feed = ListFeed([[body("a", 1, name="x"), deletion("a", 3), body("a", 2, name="late")]])
    run(place, feed, options(batch_messages=1))
    (row,) = place.read("")
    assert (row["_deleted"], row["_version"], row["name"], row["id"]) == (True, 3, None, None)


def test_bad_messages_go_to_the_rejects_with_place_reason_and_body(place: Place):
    feed = ListFeed([[b"{", body("a", 1, name="x"), b"[]", b'{"id": "b"}', b'{"v": 1}', b"\xff\x00"]])
    done = run(place, feed)
    assert (done.rejected, place.state()) == (5, {"a": (1, "x")})
    found = sorted((row["_offset"], bytes(row["_body"]), row["_reason"]) for row in place.read("rejects"))
    assert [(offset, bad) for offset, bad, _ in found] == [
        (0, b"{"),
        (2, b"[]"),
        (3, b'{"id": "b"}'),
        (4, b'{"v": 1}'),
        (5, b"\xff\x00"),
    ]
    reasons = [reason for _, _, reason in found]
    assert reasons[0].startswith("the body is not JSON: ")
    assert reasons[1:4] == [
        "the body is a JSON array, not a JSON object",
        "the version, field 'v', is missing",
        "the key, field 'id', is missing",
    ]


def test_fields_without_a_column_and_misfits_are_kept_in_the_rest_and_counted(place: Place):
    feed = ListFeed([[body("a", 1, name=7, size=1.5, more={"x": [1]}), body("b", 1, size=2, none=None)]])
    done = run(place, feed)
    rows = {row["_key"]: row for row in place.read("")}
    rest = rows["a"]["_rest"]
    assert (rest if isinstance(rest, dict) else json.loads(rest)) == {"name": 7, "more": {"x": [1]}}
    assert (rows["a"]["name"], rows["a"]["size"], rows["b"]["size"], rows["b"]["_rest"]) == (None, 1.5, 2.0, None)
    assert sorted(map(str, done.drift.fields(done.columns))) == [
        "Field more had json in 1 bodies, and there is no such column.",
        "Field name had bigint in 1 bodies, and its column is text.",
    ]


def test_every_kind_of_column_holds_its_values(place: Place):
    columns = JsonColumns([JsonColumn(name, name) for name in ("boolean", "bigint", "double", "text", "timestamp", "json")])
    values = {"boolean": True, "bigint": -(2**63), "double": 1e300, "text": 'a,"b"\n\\ \u2028🎉', "json": {"ü": [1, None, "x"]}}
    feed = ListFeed([[body("a", 1, **values, timestamp="2026-11-18T10:00:00.123456+01:00"), body("b", 1, text="")]])
    run(place, feed, options(columns=columns))
    rows = {row["_key"]: row for row in place.read("")}
    found = rows["a"]
    assert {name: found[name] for name in ("boolean", "bigint", "double", "text")} == {
        name: values[name] for name in ("boolean", "bigint", "double", "text")
    }
    assert found["timestamp"].isoformat().replace("+00:00", "") in ("2026-11-18T09:00:00.123456",)
    assert (found["json"] if isinstance(found["json"], dict) else json.loads(found["json"])) == values["json"]
    assert (rows["b"]["text"], rows["b"]["bigint"]) == ("", None)


HOSTILE_TEXTS = ["\\N", "\\.", "a\n\\.\nb", '"', "''", ",", "\r\n", "\u2028", "\uffff", "NULL", "x" * 100_000, " ", "\x01\x7f"]
HOSTILE_BODIES = [
    b'{"id": "nested", "v": 1, "more": %s}' % (b"[" * 900 + b"]" * 900),
    b'{"id": "large", "v": 1, "more": %s}' % (b"9" * 4_000),
    b'{"id": "small", "v": 1, "more": 1e-300, "size": -0.0}',
    b'{"id": "nul", "v": 1, "name": "x\\u0000"}',
    b'{"id": "surrogate", "v": 1, "name": "\\ud800"}',
    b'{"id": "twice", "v": 1, "name": "x", "name": "y"}',
    b'{"id": "names", "v": 1, "": 1, "a\\nb": 2, "_key": "z", "_rest": 1, "NAME": "big"}',
    b'{"id": "v", "v": 99999999999999999999999}',
    b"\x80" * 100,
]


def test_hostile_texts_keys_and_bodies_stop_nothing_and_are_kept_or_rejected(place: Place):
    feed = ListFeed([[body(text, 1, name=text) for text in HOSTILE_TEXTS if len(text) < 2_000], HOSTILE_BODIES])
    feed.queues[0].append(body("long", 1, name=HOSTILE_TEXTS[10]))
    done = run(place, feed)
    state = place.state()
    for text in HOSTILE_TEXTS:
        assert state["long" if len(text) > 2_000 else text] == (1, text)
    kept = {row["_key"]: row for row in place.read("")}
    assert done.messages == len(kept) + done.rejected
    assert {"nested", "large", "small", "twice", "names"} <= kept.keys()
    assert kept["twice"]["name"] == "y"
    rest = kept["names"]["_rest"]
    assert (rest if isinstance(rest, dict) else json.loads(rest)) == {"": 1, "a\nb": 2, "_key": "z", "_rest": 1, "NAME": "big"}
    rejected = {bytes(row["_body"]) for row in place.read("rejects")}
    assert rejected >= {HOSTILE_BODIES[4], HOSTILE_BODIES[7], HOSTILE_BODIES[8]}
    assert ("nul" in kept) != (HOSTILE_BODIES[3] in rejected)
    assert run(place, feed).messages == 0


def test_columns_with_names_of_all_kinds_are_written(place: Place):
    names = ["userId", "select", "größe", "a-b", "Δ", "1st", "s", "t", "%s"]
    columns = JsonColumns([JsonColumn(name, "bigint") for name in names])
    feed = ListFeed([[body("a", number, **dict.fromkeys(names, number)) for number in (1, 2)]])
    run(place, feed, options(columns=columns, batch_messages=1))
    (row,) = place.read("")
    assert {name: row[name] for name in names} == dict.fromkeys(names, 2)


def test_gaps_wait_are_reported_and_are_filled(place: Place):
    feed = ListFeed([[body("a", 1, name="1"), body("a", 3, name="3", size=2.5), body("b", 2, name="2"), body("a", 2, name="2")]])
    feed.limits = [3]
    done = run(place, feed, options(EXPECTED_VERSION))
    assert (done.waiting, done.gaps) == (2, [WaitingKey("a", 1, 3, 1), WaitingKey("b", None, 2, 1)])
    assert place.state() == {"a": (1, "1")}
    feed.limits = [4]
    done = run(place, feed, options(EXPECTED_VERSION))
    assert (done.waiting, done.gaps) == (1, [WaitingKey("b", None, 2, 1)])
    assert (place.state(), place.waiting()) == ({"a": (3, "3")}, {("b", 2)})
    assert next(row["size"] for row in place.read("")) == 2.5


def test_more_waiting_changes_than_may_are_refused_and_nothing_of_the_batch_is_committed(place: Place):
    feed = ListFeed([[body("a", 1, name="x"), body("b", 5), body("c", 5)]])
    with pytest.raises(TargetError, match=r"^2 changes would wait for missing versions, and 1 may: version 5 of key 'b' is one"):
        run(place, feed, options(EXPECTED_VERSION, waiting_max=1))
    assert (place.state(), place.waiting()) == ({}, set())
    run(place, feed, options(EXPECTED_VERSION, waiting_max=2))
    assert (place.state(), len(place.waiting())) == ({"a": (1, "x")}, 2)


def test_another_key_version_mode_or_topic_is_refused(place: Place):
    feed = ListFeed([[body("a", 1)]])
    run(place, feed)
    for changed, sentence in (
        ({"spec": ChangeSpec(["name"], "v", "op=delete")}, "was made with --key id, not name."),
        ({"spec": ChangeSpec(["id"], "v")}, "was made with --delete-when op=delete, not None."),
        ({"mode": EXPECTED_VERSION}, "was made with --mode last-writer, not expected-version."),
        ({"topic": "other"}, "was made of topic changes, not other."),
        ({"columns": JsonColumns([JsonColumn("id", "text")])}, "was made with other columns than --schema has."),
    ):
        with pytest.raises(ArgumentError) as caught:
            run(place, feed, options(**changed))
        assert sentence in str(caught.value)
    assert run(place, feed, options(columns=None)).messages == 0


def test_two_jobs_do_not_write_to_one_table(place: Place, monkeypatch: pytest.MonkeyPatch):
    for module in (delta_table, iceberg_table, postgresql_table):
        monkeypatch.setattr(module, "LOCK_WAIT_S", 0.0)
    with locked(place), pytest.raises(TargetError, match=r"^Another job is writing to "):
        run(place, ListFeed([[body("a", 1)]]))


def test_a_job_whose_queue_another_job_has_read_commits_nothing(place: Place):
    """Also without a lock: where the lock does not hold, such as behind a pool of connections."""
    feed = ListFeed([[body("a", 1, name="x"), body("a", 2, name="y")]], limits=[1])
    run(place, feed)
    feed.limits = [2]
    target, other = place.open(), place.open()
    try:
        first, second = TableRun(target, options(), feed), TableRun(other, options(), feed)
        plan = second.plan()
        changes = feed.changes([], second.settings)
        first.run()
        with pytest.raises(TargetError, match="another job has read queue 0 of changes at broker-a meanwhile"):
            second.apply(plan, changes)
    finally:
        target.close()
        other.close()
    assert place.state() == {"a": (2, "y")}


def test_deleted_messages_are_an_error_or_a_gap_that_is_reported(place: Place):
    feed = ListFeed([[body("a", number, name=str(number)) for number in (1, 2, 3, 4)]], limits=[1])
    run(place, feed)
    feed.limits, feed.firsts = [4], [3]
    with pytest.raises(MissingMessagesError, match="Messages were deleted before they were read: queue 0 of changes"):
        run(place, feed)
    done = run(place, feed, options(skip_missing=True))
    assert ([(gap.start, gap.stop) for gap in done.missing], place.state()) == ([(1, 3)], {"a": (4, "4")})
    assert run(place, feed).messages == 0


def test_a_topic_that_is_shorter_than_the_table_is_refused(place: Place):
    feed = ListFeed([[body("a", 1), body("a", 2)]])
    run(place, feed)
    feed.limits = [1]
    with pytest.raises(
        MissingMessagesError, match=r"^The table has queue 0 .* up to offset 2, but the queue ends at 1: .* Use another"
    ):
        run(place, feed)


def test_a_topic_that_was_created_again_and_has_grown_past_the_table_is_refused(place: Place):
    run(place, ListFeed([[body("a", 1)], [body("b", 1)]]))
    other = ListFeed([[body("c", 1), body("c", 2)], [body("b", 1)]], prefix="new")
    with pytest.raises(MissingMessagesError, match=r"^The table has queue 0 .* up to offset 1, and the message at 0 was id-0-0;"):
        run(place, other, options(skip_missing=True))
    assert set(place.state()) == {"a", "b"}
    same = ListFeed([[body("a", 1), body("a", 2)], [body("b", 1)]])
    assert run(place, same).messages == 1
    other.limits, other.queues[0] = [3, 1], [body("c", 1)] * 3
    with pytest.raises(MissingMessagesError, match="and the message at 1 was id-0-1; now it is new-0-1"):
        run(place, other)


def test_a_table_that_an_older_program_made_is_continued_and_knows_its_last_messages_then(place: Place):
    feed = ListFeed([[body("a", 1), body("a", 2), body("a", 3)]], limits=[1])
    with locked(place) as target:
        job = TableRun(target, options(), feed)
        job._read_ids = lambda _offsets: {}
        job.run()
    feed.limits = [2]
    assert run(place, feed).messages == 1
    with locked(place) as target:
        description = target.load()
    assert description is not None
    assert [(one.offset, one.id) for one in description.last_messages] == [(1, "id-0-1")]


def test_an_empty_topic_makes_no_table_unless_a_schema_names_the_columns(place: Place):
    feed = ListFeed([[]])
    assert run(place, feed, options(columns=None)).is_new
    with locked(place) as target:
        assert target.load() is None
    run(place, feed)
    assert place.read("") == []


def test_columns_are_inferred_from_the_messages_there_are(place: Place):
    feed = ListFeed([[body("a", 1, size=1), b"bad", body("b", 1, size=1.5, tags=["x"], ok=True)]])
    done = run(place, feed, options(columns=None))
    assert {column.name: column.kind for column in done.columns.columns} == {
        "id": "text",
        "v": "bigint",
        "size": "double",
        "tags": "json",
        "ok": "boolean",
    }
    assert (len(place.read("")), done.rejected, done.drift.counts) == (2, 1, {})


def test_options_that_no_message_fits_are_refused_before_a_table_is_made(place: Place):
    feed = ListFeed([[body("a", 1)] * 3])
    with pytest.raises(
        ArgumentError, match=r"^None of the 3 newest messages of the topic is a change\. Of the last one, the key, fi"
    ):
        run(place, feed, options(spec=ChangeSpec(["idd"], "v")))
    with locked(place) as target:
        assert target.load() is None


# --- any order, any division, any crash


@st.composite
def divided(draw: Any) -> tuple[list[Change], list[list[Change]], int]:
    """A history; the same with repetitions, in another order, in two queues; and the size of batches."""
    history = draw(histories.filter(bool))
    order = draw(st.permutations([*history, *draw(st.lists(st.sampled_from(history), max_size=5))]))
    cut = draw(st.integers(0, len(order)))
    return history, [order[:cut], order[cut:]], draw(st.sampled_from([4, 1_000]))


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=divided())
def test_any_order_repetition_and_division_gives_the_table_of_the_reference(
    new_place: Callable[[], Place], mode: str, drawn: Any
):
    history, queues, size = drawn
    place = new_place()
    run(place, ListFeed([[change.encode() for change in queue] for queue in queues]), options(mode, batch_messages=size))
    assert place.state() == reference_fold(history, mode, digest)
    assert place.waiting() == (reference_waiting(history) if mode == EXPECTED_VERSION else set())


# What targets do one after another when they write. Each has some of these methods.
STEPS = ("create", "_make_tables", "_advance", "_merge", "_merge_into", "_replace_waiting", "_add_rejects", "_publish", "_settle")


class Crash(Exception):
    """The process dies here."""


def crash_points(target: Any, at: int) -> None:
    """Let the target crash after its `at`-th step of writing."""
    steps = iter(range(at + 1))
    for name in STEPS:
        if hasattr(target, name):
            setattr(target, name, _crashing(getattr(target, name), steps))


def _crashing(do: Callable[..., Any], steps: Iterator[int]) -> Callable[..., Any]:
    def step(*given: Any, **named: Any) -> Any:
        done = do(*given, **named)
        if next(steps, None) is None:
            raise Crash
        return done

    return step


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_after_any_step_of_writing_leaves_a_table_that_the_next_run_completes(new_place: Callable[[], Place], mode: str):
    history = [Change("a", 2, "x"), Change("b", 1, "x"), Change("a", 1, "y"), Change("a", 3, None), Change("c", 2, "z")]
    bodies = [*(change.encode() for change in history), b"bad", *(change.encode() for change in history[:2])]
    crashes = 0
    for at in range(60):
        place, crashed = new_place(), False
        with locked(place) as target:
            crash_points(target, at)
            try:
                TableRun(target, options(mode, batch_messages=4), ListFeed([bodies])).run()
            except Crash:
                crashed = True
        if not crashed:
            break
        crashes += 1
        run(place, ListFeed([bodies]), options(mode, batch_messages=3))
        assert place.state() == reference_fold(history, mode, digest), f"after a crash at step {at}"
        assert place.waiting() == (reference_waiting(history) if mode == EXPECTED_VERSION else set())
        assert [row["_offset"] for row in place.read("rejects")] == [5]
    assert crashes > 5
    assert crashes < 59
