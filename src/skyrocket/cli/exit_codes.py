"""The exit codes of all commands, and which one an error gets. docs/command-line.md has the same table.

0    success
1    a negative answer: something does not exist, a check has findings, nothing was done
2    invalid arguments, or a confirmation that nobody could give
3    the cluster cannot be reached, or does not answer in time
4    the cluster refused the request
130  Ctrl-C
"""

from __future__ import annotations

from typing import Final

from skyrocket.client.errors import (
    BrokerError,
    DisconnectedError,
    NoNameserverError,
    OverloadedError,
    SendFailedError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.protocol.responses import ResponseCode

FAILED: Final = 1
WRONG_INPUT: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = 4
INTERRUPTED: Final = 130

_NO_ANSWER: Final = (NoNameserverError, UnreachableError, DisconnectedError, TimedOutError)
_NOT_THERE: Final = {ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND}


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for an error of the client, of a pipeline or of the protocol."""
    if isinstance(error, SendFailedError):
        codes = {exit_code_of(attempt.error) for attempt in error.attempts}
        return UNREACHABLE if UNREACHABLE in codes or not codes else max(codes)
    if isinstance(error, BrokerError):
        return FAILED if error.code in _NOT_THERE else REFUSED
    if isinstance(error, _NO_ANSWER):
        return UNREACHABLE
    if isinstance(error, OverloadedError):
        return FAILED
    return WRONG_INPUT if isinstance(error, ValueError) else FAILED
