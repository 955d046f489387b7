"""The text of a failed stream: Spark's first words and the message of the source or sink."""

from __future__ import annotations

import pytest

from skyrocket.spark.session.stream_errors import shorten_stream_error

QUERY = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
PLAN = "=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\n\nLogical Plan:\nWriteToMicroBatchDataSource rocketmq\n"
MESSAGE = "skyrocket.spark.errors.OptionError: Option 'topics' does not exist. Did you mean 'topic'?"
TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 7, in publish\n    skyrocket.spark.session()\n'


@pytest.mark.parametrize(
    "between",
    [
        "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: ",
        f"[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Reason: {TRACEBACK}pyspark.errors.PythonException: \n",
        f"Failed: skyrocket.spark.errors.OffsetsError: An error before.\n\nDuring handling of it:\n{TRACEBACK}",
    ],
)
def test_message_comes_last(between: str):
    assert shorten_stream_error(f"{QUERY}{between}{MESSAGE}\n SQLSTATE: 38000 SQLSTATE: XXKST\n{PLAN}") == QUERY + MESSAGE


def test_message_of_several_lines_is_kept():
    text = f"{QUERY}skyrocket.spark.sink.commit.CommitError: One line.\nAnother line.\n SQLSTATE: 38000\n{PLAN}"
    assert shorten_stream_error(text) == f"{QUERY}skyrocket.spark.sink.commit.CommitError: One line.\nAnother line."


def test_errors_of_other_sources_are_unchanged():
    text = f"{QUERY}java.lang.IllegalStateException: skyrocket.spark is not concerned\n{PLAN}"
    assert shorten_stream_error(text) == text
