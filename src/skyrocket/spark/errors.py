"""What a user of the Spark sources may have to read. Each error is one sentence; Spark shows it as the end of its own."""

from __future__ import annotations


class SparkSourceError(Exception):
    """The root of every error that the sources and the sink raise on purpose."""


class OptionError(SparkSourceError, ValueError):
    """An option that is unknown, missing or cannot be meant. The sentence names it."""


class ColumnError(SparkSourceError, ValueError):
    """A column that is unknown, missing or of the wrong type. The sentence names it."""


class OffsetsError(SparkSourceError):
    """Offsets that are not there, or a checkpoint that does not fit its query."""


class DataLossError(SparkSourceError):
    """Messages that were to be read are gone, and `failOnDataLoss` says to stop there."""


class UnreachableClusterError(SparkSourceError):
    """No nameserver or broker answered for as long as the options allow."""


class RefusedError(SparkSourceError):
    """A broker or nameserver answered, and the answer is no: access control, a filter that it does not allow, a closed topic."""


class JavaError(SparkSourceError):
    """No Java that Spark runs on, neither the system's nor the wheel's."""
