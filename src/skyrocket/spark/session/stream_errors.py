"""Makes the error of a failed stream end with its message, as every other error of the sources and the sink does.

Spark puts a description of the query behind the message: its offsets, its state and its logical plan, a page in all. Spark has no
setting for that, so this module changes how PySpark's exception turns into text. Errors of other sources keep Spark's text.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors.exceptions.base import PySparkException
from pyspark.errors.exceptions.captured import StreamingQueryException

_DETAILS: Final = "=== Streaming Query ==="
_FAILED: Final = "terminated with exception: "
_OUR_ERROR: Final = re.compile(r"\bskyrocket\.spark(?:\.\w+)*\.\w+Error: ")
_SQL_STATES: Final = re.compile(r"(?:\s*SQLSTATE: \w+)+\s*$")
_is_shortened: set[type[PySparkException]] = set()


def shorten_stream_error(text: str) -> str:
    """Return Spark's first words and the message. A text without an error of this package stays as it is."""
    before, _, _ = text.partition(_DETAILS)
    found = list(_OUR_ERROR.finditer(before))
    if not found:
        return text
    words, failed, _ = before.partition(_FAILED)
    return (words + failed if failed else "") + _SQL_STATES.sub("", before[found[-1].start() :]).strip()


def shorten_stream_errors(*, connect: bool = False) -> None:
    """Change the text of the exception that a failed stream raises. `connect` is for Spark Connect, which has one of its own."""
    _shorten(StreamingQueryException)
    if connect:
        from pyspark.errors.exceptions import connect as remote  # noqa: PLC0415 — needs grpc

        _shorten(remote.StreamingQueryException)


def _shorten(error: type[PySparkException]) -> None:
    if error in _is_shortened:
        return
    _is_shortened.add(error)
    spark_text = error.__str__

    def short_text(self: PySparkException) -> str:
        return shorten_stream_error(spark_text(self))

    error.__str__ = short_text  # type: ignore[method-assign]
