"""What Apache's broker, client and administrator ask Apache's nameserver, asked again of ours, in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from skyrocket.protocol.bodies import TopicList
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.payload import read_body
from skyrocket.protocol.requests import REQUESTS, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.metrics import MonitoredSettings
from tests.support.golden import GoldenFrame, golden_frames
from tests.unit.nameserver.running import a_nameserver, registration

# Registrations of these topics were not recorded (four frames of a kind are); the routes that they led to were.
UNRECORDED = ("GoldenTxJ", "GoldenTopicR", "GoldenOrderR", "GoldenTxR")


def command(frame: GoldenFrame) -> Command:
    (only,) = CommandDecoder().feed(frame.frame)
    return only


def exchanges() -> list[tuple[Command, Command | None]]:
    """Requests in their order, each with its recorded answer where there is one."""
    frames = [frame for frame in golden_frames() if frame.server == "namesrv"]
    found: list[tuple[Command, Command | None]] = []
    for at, frame in enumerate(frames):
        if frame.direction == "to-server":
            request = command(frame)
            answers = [
                other
                for other in frames[at + 1 :]
                if other.direction == "from-server"
                and (other.request_code, other.header["opaque"]) == (frame.request_code, frame.header["opaque"])
            ]
            found.append((request, command(answers[0]) if answers and frame.serialize == "JSON" else None))
        elif match := re.search(r"for the topic: (\S+)", frame.header.get("remark") or ""):
            # only its answer was recorded
            found.append((Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": match[1]}), command(frame)))
    return found


def meaning(answer: Command, code: int) -> Any:
    """Its code, fields and body, whatever the order of sets."""
    body = read_body(answer, REQUESTS[code])
    if isinstance(body, msgspec.Struct):
        body = msgspec.to_builtins(body, str_keys=True)
    return answer.code, answer.fields, _sorted(body)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=repr)
    return value


def register_more(ask: Callable[[Command], Command], topics: Iterable[str]) -> None:
    for number, topic in enumerate(topics):
        request = registration(topic, counter=100 + number, queues=2)
        request.fields["clusterName"] = "Lab"
        assert ask(request).code == ResponseCode.SUCCESS


def test_recorded_requests_get_the_recorded_answers(tmp_path: Path):
    compared: dict[int, int] = {}
    with a_nameserver(tmp_path) as running, running.connected() as ask:
        for request, recorded in exchanges():
            topic = request.fields.get("topic", "")
            if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and topic in UNRECORDED:
                register_more(ask, [topic])
            if recorded is not None and request.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                wanted = decode(recorded.body, TopicList).topic_list
                register_more(ask, sorted(set(wanted) - set(running.nameserver.table.topics.all())))
            answer = ask(request)
            if recorded is None:
                assert request.serialization is Serialization.ROCKETMQ
                assert (answer.code, answer.serialization) == (ResponseCode.SUCCESS, Serialization.ROCKETMQ)
                continue
            compared[request.code] = compared.get(request.code, 0) + 1
            if request.code == RequestCode.GET_NAMESRV_CONFIG:
                check_settings(answer, recorded)
            else:
                assert meaning(answer, request.code) == meaning(recorded, request.code), request
    assert compared == {106: 4, 104: 2, 103: 4, 105: 8, 206: 2, 319: 1, 216: 1}, "the recording must not shrink unseen"


def check_settings(answer: Command, recorded: Command) -> None:
    """Where both have a setting, both have it alike but for what belongs to a machine."""
    ours, theirs = decode_config(answer.body), decode_config(recorded.body)
    for key in set(MonitoredSettings.rows()) - set(theirs):  # limits and metrics, which Apache's has not
        ours.pop(key, None)
    for key in ("authenticationEnabled", "initAuthenticationUser", "innerClientAuthenticationCredentials", "authAuditLogPath"):
        ours.pop(key)  # access control, which Apache's has not
    machine = {"bindAddress", "listenPort", "kvConfigPath", "configStorePath"}
    assert set(ours) <= set(theirs), "our keys are Apache's"
    assert {key: ours[key] for key in set(ours) - machine} == {key: theirs[key] for key in set(ours) - machine}
