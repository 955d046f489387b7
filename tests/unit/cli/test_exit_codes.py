"""Which exit code an error gets, and that the document has the same table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyrocket.cli import exit_codes
from skyrocket.cli.exit_codes import FAILED, INTERRUPTED, REFUSED, UNREACHABLE, WRONG_INPUT, exit_code_of
from skyrocket.client import (
    Attempt,
    BrokerError,
    ConfigurationError,
    DisconnectedError,
    InvalidMessageError,
    NoNameserverError,
    NoRouteError,
    NotFoundError,
    SendFailedError,
    SendTimedOutError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.pipelines.errors import ArgumentError, PipelineError
from skyrocket.protocol.responses import ResponseCode

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "command-line.md"


def refusal(code: int) -> BrokerError:
    return BrokerError(code, "no", "127.0.0.1:10911")


def failed_send(*errors: Exception) -> SendFailedError:
    return SendFailedError("orders", [Attempt("broker-a", "127.0.0.1:10911", error) for error in errors])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFoundError("no such group"), FAILED),
        (NoRouteError("no such topic", "orders"), FAILED),
        (refusal(ResponseCode.TOPIC_NOT_EXIST), FAILED),
        (PipelineError("broken"), FAILED),
        (ConfigurationError("no address"), WRONG_INPUT),
        (InvalidMessageError("no body"), WRONG_INPUT),
        (ArgumentError("no number"), WRONG_INPUT),
        (NoNameserverError("nobody"), UNREACHABLE),
        (UnreachableError("nobody"), UNREACHABLE),
        (DisconnectedError("gone"), UNREACHABLE),
        (TimedOutError("late"), UNREACHABLE),
        (SendTimedOutError("orders", []), UNREACHABLE),
        (failed_send(refusal(ResponseCode.NO_PERMISSION)), REFUSED),
        (failed_send(refusal(ResponseCode.NO_PERMISSION), UnreachableError("nobody")), UNREACHABLE),
        (refusal(ResponseCode.NO_PERMISSION), REFUSED),
        (refusal(ResponseCode.SYSTEM_ERROR), REFUSED),
    ],
)
def test_an_error_has_the_exit_code_of_its_kind(error: Exception, code: int):
    assert exit_code_of(error) == code


def test_the_document_and_the_module_have_the_same_table():
    in_document = {int(code) for code in re.findall(r"^\| (\d+) \| ", DOCUMENT.read_text(), re.MULTILINE)}
    in_module = {int(code) for code in re.findall(r"^(\d+) +\w", exit_codes.__doc__ or "", re.MULTILINE)}
    assert in_document == in_module == {0, FAILED, WRONG_INPUT, UNREACHABLE, REFUSED, INTERRUPTED}
