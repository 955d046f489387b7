"""`skyrocket` without a command, `skyrocket protocol codes` and `skyrocket protocol decode`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from skyrocket import __version__
from skyrocket.cli.main import app
from skyrocket.protocol.requests import REQUESTS
from tests.support.golden import golden_frames


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, arguments, input=stdin)


def golden(code: int, kind: str) -> str:
    return next(frame.frame.hex() for frame in golden_frames() if frame.request_code == code and frame.kind == kind)


def test_without_a_command_it_prints_an_overview():
    result = run()
    assert result.exit_code == 0
    assert f"skyrocket {__version__}" in result.output
    assert "skyrocket topic create orders" in result.output


def test_it_prints_its_version():
    assert run("--version").output.split(" (")[0] == __version__
    assert run("--version").output.endswith("), RocketMQ 5.5.0\n")


def test_codes_lists_every_row_for_people_and_for_programs():
    assert len(run("protocol", "codes").output.splitlines()) == len(REQUESTS)
    rows = [json.loads(line) for line in run("protocol", "codes", "--json").output.splitlines()]
    assert {row["code"] for row in rows} == set(REQUESTS)
    assert {"code": 105, "name": "GET_ROUTEINFO_BY_TOPIC"}.items() <= next(row for row in rows if row["code"] == 105).items()


def test_a_request_is_decoded():
    result = run("protocol", "decode", golden(310, "request"))
    assert result.exit_code == 0
    assert "request 310 SEND_MESSAGE_V2" in result.output
    assert "b: 'GoldenTopicJ'" in result.output


def test_a_frame_is_decoded_as_json():
    request = json.loads(run("protocol", "decode", golden(310, "request"), "--json").output)
    assert (request["kind"], request["code"], request["name"]) == ("request", 310, "SEND_MESSAGE_V2")
    assert request["fields"]["b"] == "GoldenTopicJ"
    response = json.loads(run("protocol", "decode", "--asked", "208", golden(208, "response"), "--json").output)
    assert (response["kind"], response["name"]) == ("response", "SUCCESS")
    assert "ConsumeStats" in response["body"]


def test_a_response_is_decoded_by_the_code_of_its_request():
    result = run("protocol", "decode", "--asked", "208", golden(208, "response"))
    assert "response 0 SUCCESS" in result.output
    assert "ConsumeStats" in result.output


def test_frames_are_read_from_standard_input():
    assert "request 105" in run("protocol", "decode", "-", stdin=golden(105, "request")).output


def test_input_that_is_not_a_frame_fails_with_one_sentence():
    assert run("protocol", "decode", "xyz").exit_code == 2
    cut = run("protocol", "decode", golden(105, "request")[:-2])
    assert cut.exit_code == 1
    assert "not whole" in cut.output
    broken = run("protocol", "decode", "ffffffff00000000")
    assert broken.exit_code == 1
    assert "A frame says it has -1 bytes" in broken.output
