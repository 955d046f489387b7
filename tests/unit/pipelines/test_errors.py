"""The one sentence of ours in an error that Spark has wrapped."""

from __future__ import annotations

from skyrocket.pipelines.errors import our_sentence, reason_of
from skyrocket.pipelines.progress import JobProgress, watching
from tests.support.waiting import wait_until

WRAPPED = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance read data: Traceback (most recent call last):
  File "x.py", line 1, in read
skyrocket.spark.errors.DataLossError: Messages of queue 0 of orders at broker-a are lost: the queue now starts at offset 7.
 SQLSTATE: 38000"""


def test_the_sentence_of_our_error_is_found_in_the_text_of_spark():
    assert our_sentence(WRAPPED) == "Messages of queue 0 of orders at broker-a are lost: the queue now starts at offset 7."


def test_the_last_of_several_errors_counts():
    text = "skyrocket.client.errors.TimedOutError: first\n\nskyrocket.pipelines.errors.ReplayError: second SQLSTATE: 39000"
    assert our_sentence(text) == "second"


def test_an_error_of_others_is_shown_by_its_first_line():
    assert our_sentence("[PATH_NOT_FOUND] no such path\nat org.apache") == "[PATH_NOT_FOUND] no such path"


def test_an_error_of_others_that_is_only_announced_is_followed_by_its_name():
    text = "\n  An exception was thrown from the Python worker:\nTraceback:\nModuleNotFoundError: No module x"
    assert our_sentence(text) == "An exception was thrown from the Python worker: ModuleNotFoundError: No module x"


def test_the_reason_of_an_error_from_java_is_the_message_of_its_exception():
    text = "An error occurred while calling None.x.JavaSparkContext.\n: io.k.ClientException: No such host: k8s\n\tat io.k.Create"
    assert reason_of(text) == "No such host: k8s"
    assert (
        reason_of("[JAVA_GATEWAY_EXITED] Java gateway process exited\nmore")
        == "[JAVA_GATEWAY_EXITED] Java gateway process exited"
    )


def test_progress_counts_in_words():
    assert JobProgress("x", 1200, 5000).counted() == "1,200 of 5,000 messages"
    assert JobProgress("x", 3, unit="files").counted() == "3 files"
    assert JobProgress("x").counted() == ""


def test_progress_is_reported_while_the_caller_waits():
    seen: list[JobProgress] = []
    with watching(lambda: JobProgress("sending", len(seen)), seen.append):
        wait_until(lambda: len(seen) > 1, "two looks")
    assert seen[:2] == [JobProgress("sending", 0), JobProgress("sending", 1)]
