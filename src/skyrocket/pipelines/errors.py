"""Errors of the pipeline jobs, and the one sentence of ours in an error that Spark has wrapped."""

from __future__ import annotations

import re
from typing import Final

# Spark's text has the Python class of the error before its message, and often a traceback before that.
_OUR_ERROR: Final = re.compile(r"\bskyrocket(?:\.\w+)+Error: ([^\n]+)")
_JAVA_ERROR: Final = re.compile(r"^: (?:[\w$]+\.)+[\w$]*(?:Exception|Error): ([^\n]+)", re.MULTILINE)
_ANY_ERROR: Final = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception): [^\n]+)", re.MULTILINE)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*$")


class PipelineError(Exception):
    """Base class of every error that a job raises deliberately."""


class ArgumentError(PipelineError, ValueError):
    """An argument of a job is wrong. The message names it, and what it should be."""


class ArchiveError(PipelineError):
    """An archive cannot be read or written: it is damaged, in use, or of another kind."""


class MissingMessagesError(PipelineError):
    """Messages that a job has to read no longer exist in their queue."""


class ReplayError(PipelineError):
    """A replay cannot continue: a queue takes no messages, or its progress is of another replay."""


class DrainError(PipelineError):
    """A drain cannot continue: its archive is not whole, or the group may not be moved."""


class TargetError(PipelineError):
    """A table cannot be written: its target does not answer, is in use, has something else, or too many changes wait."""


class SessionError(PipelineError):
    """Spark does not start, or cannot be reached."""


def reason_of(text: str) -> str:
    """Return the reason in the text of an error from Java: the message of its first exception, else its first line."""
    found = _JAVA_ERROR.search(text)
    return found[1].strip() if found else our_sentence(text)


def our_sentence(text: str) -> str:
    """Return the last message of an error of this package in Spark's text; without one, the first line of that text.

    A first line that only announces an error is followed by the last one of the lines that name it.
    """
    found = _OUR_ERROR.findall(text)
    if found:
        return _SQL_STATE.sub("", str(found[-1])).strip()
    first = text.strip().split("\n", 1)[0].strip()
    named = _ANY_ERROR.findall(text) if first.endswith(":") else []
    return f"{first} {named[-1].strip()}" if named else first
