"""The lag of queues, computed from Spark's progress."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from skyrocket.client.queues import Queue
from skyrocket.spark.source.lag import LagListener, QueryLag, lag

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
OURS = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@3d629956"


def source(end: Any, latest: Any, description: str = OURS) -> dict[str, Any]:
    return {"description": description, "startOffset": None, "endOffset": end, "latestOffset": latest, "numInputRows": 1}


def progress(*sources: dict[str, Any]) -> dict[str, Any]:
    return {"id": "31c17933-fdb1-46f8-be75-c69e97b4eb24", "name": "nightly", "batchId": 7, "sources": list(sources)}


END = {"orders": {"broker-a:0": 3, "broker-a:1": 8}, "$from": {"orders": {"broker-a:0": 0}}}
LATEST = {"orders": {"broker-a:0": 10, "broker-a:1": 8}}


def test_lag_is_what_a_batch_left_in_each_queue():
    assert lag(progress(source(END, LATEST))) == {A: 7, B: 0}


def test_offsets_may_be_json_texts_as_in_recent_progress():
    assert lag(progress(source(json.dumps(END), json.dumps(LATEST)))) == {A: 7, B: 0}


def test_queue_without_a_batch_is_behind_by_its_whole_length():
    assert lag(progress(source({"orders": {"broker-a:0": 3}}, LATEST)))[B] == 8


def test_other_sources_are_ignored():
    others = [
        source({"t": {"0": 5}}, {"t": {"0": 9}}, "KafkaV2[Subscribe[t]]"),
        source({"t": {"0": 5}}, {"t": {"0": 9}}),
        source("5", "9"),
        source(END, None),
    ]
    assert lag(progress(*others, source(END, LATEST))) == {A: 7, B: 0}


class Event(QueryProgressEvent):
    def __init__(self, report: dict[str, Any]) -> None:
        self._report = report

    @property
    def progress(self) -> Any:
        class Progress(StreamingQueryProgress):
            id, name, batchId = self._report["id"], self._report["name"], self._report["batchId"]
            json = json.dumps(self._report)

            def __init__(self) -> None: ...

        return Progress()


def test_listener_passes_the_lag_to_its_callback():
    seen: list[QueryLag] = []
    LagListener(seen.append).onQueryProgress(Event(progress(source(END, LATEST))))
    assert [(each.name, each.batch_id, each.total, each.lag) for each in seen] == [("nightly", 7, 7, {A: 7, B: 0})]


def test_listener_ignores_queries_that_read_no_queues():
    seen: list[QueryLag] = []
    LagListener(seen.append).onQueryProgress(Event(progress(source("5", "9"))))
    assert seen == []


@pytest.mark.parametrize(("warn_above", "level"), [(None, logging.INFO), (7, logging.INFO), (6, logging.WARNING)])
def test_listener_without_a_callback_logs_the_lag(warn_above: int | None, level: int, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "skyrocket.spark.source.lag")
    LagListener(warn_above=warn_above).onQueryProgress(Event(progress(source(END, LATEST))))
    [record] = caplog.records
    assert record.levelno == level
    assert record.getMessage() == (
        "Query nightly is 7 offsets behind after batch 7, most of it in queue 0 of orders at broker-a (7)."
    )
