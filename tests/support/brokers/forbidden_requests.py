"""Requests that change or show something, and every way to send one that a server has to refuse.

    harmful_requests(half)       of every kind that a broker serves, about the topic `secrets` and the group `auditors`
    nameserver_requests(broker)  the same for a nameserver
    forgeries(request)           one request, unsigned, wrongly signed, or changed after it was signed

`Wire` sends them over a socket, in either serialization, and returns the answers.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from skyrocket.auth.users import AccessKeys
from skyrocket.protocol.command import ONEWAY_FLAG, Command, CommandDecoder, encode_command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.header import wire_names
from skyrocket.protocol.message.batch import encode_batch
from skyrocket.protocol.requests import REQUESTS, RequestCode
from skyrocket.protocol.signature import ACCESS_KEY, SIGNATURE, signed_fields
from tests.support.waiting import WAIT_S_MAX

ROOT = AccessKeys("root", "root-secret")
ALICE = AccessKeys("alice", "alice-secret")  # she may use the topic `orders` and the group `coupons`, and nothing else
TOPIC, GROUP = "secrets", "auditors"
BODY = b"a forged message"
BINARY_CODE_MAX = 32_767
NEW_PASSWORD = "eve-secret"

_SEND = {"a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1000", "h": "0"}
_SEND_V1 = {"producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0"}
_SEND_V1 |= {"sysFlag": "0", "bornTimestamp": "1000", "flag": "0"}
_PULL = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "5"}
_PULL |= {"commitOffset": "1", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*"}
_NEW_TOPIC = {"topic": "new", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
_NEW_TOPIC |= {"topicFilterType": "SINGLE_TAG", "order": "false"}
_RESET = {"topic": TOPIC, "group": GROUP, "queueId": "0", "offset": "0", "timestamp": "0", "isForce": "true"}
_QUEUES = {"consumerGroup": GROUP, "clientId": "c", "mqSet": [{"topic": TOPIC, "brokerName": "a", "queueId": 0}]}
_CONSUMER = {"groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
_CONSUMER |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}
_EVERYTHING = {"policies": [{"entries": [{"resource": "*", "actions": ["All"], "decision": "Allow"}]}]}


class Request(NamedTuple):
    code: RequestCode
    fields: dict[str, str]
    body: bytes = b""

    def signed_by(self, keys: AccessKeys) -> Command:
        return Command(self.code, fields=signed_fields(self.fields, self.body, keys.name, keys.password), body=self.body)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def heartbeat(client: str) -> bytes:
    """The body of a client's heartbeat, which makes it a member of the group."""
    return _json({"clientID": client, "consumerDataSet": [_CONSUMER], "producerDataSet": []})


def harmful_requests(half: Command) -> list[Request]:
    """An administrator may send each of them; what destroys most comes last. `half` is the answer to a half message."""
    end = {"topic": TOPIC, "producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"], "commitOrRollback": "8"}
    end |= {"commitLogOffset": str(int(half.fields["msgId"][16:], 16)), "msgId": half.fields["msgId"]}
    code = RequestCode
    return [
        Request(code.SEND_MESSAGE, _SEND_V1, BODY),
        Request(code.SEND_MESSAGE_V2, _SEND, BODY),
        Request(code.SEND_BATCH_MESSAGE, {**_SEND, "m": "true"}, encode_batch([(BODY, b"", 0), (BODY, b"", 0)])),
        Request(code.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": GROUP, "delayLevel": "3", "originTopic": TOPIC}),
        Request(code.END_TRANSACTION, end),
        Request(code.RECALL_MESSAGE, {"producerGroup": "P", "topic": TOPIC, "recallHandle": "none"}),
        Request(code.PULL_MESSAGE, _PULL),
        Request(code.LITE_PULL_MESSAGE, _PULL),
        Request(code.QUERY_MESSAGE, {"topic": TOPIC, "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}),
        Request(code.HEART_BEAT, {}, heartbeat("thief")),
        Request(code.LOCK_BATCH_MQ, {}, _json(_QUEUES)),
        Request(code.UNLOCK_BATCH_MQ, {}, _json(_QUEUES)),
        Request(code.UNREGISTER_CLIENT, {"clientID": "auditor", "consumerGroup": GROUP}),
        Request(code.UPDATE_CONSUMER_OFFSET, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "2"}),
        Request(code.INVOKE_BROKER_TO_RESET_OFFSET, _RESET),
        Request(code.CLONE_GROUP_OFFSET, {"srcGroup": GROUP, "destGroup": "thieves", "topic": TOPIC}),
        Request(code.UPDATE_AND_CREATE_TOPIC, _NEW_TOPIC),
        Request(code.UPDATE_AND_CREATE_TOPIC_LIST, {}, _json({"topicConfigList": [{"topicName": TOPIC, "perm": 0}]})),
        Request(code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, _json({"groupName": "thieves"})),
        Request(code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, _json({"groupConfigList": [{"groupName": GROUP}]})),
        Request(code.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": GROUP, "topic": TOPIC, "readable": "false"}),
        Request(code.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=71\n"),
        Request(code.GET_BROKER_CONFIG, {}),
        Request(code.GET_ALL_CONSUMER_OFFSET, {}),
        Request(code.CLEAN_EXPIRED_CONSUMEQUEUE, {}),
        Request(code.CLEAN_UNUSED_TOPIC, {}),
        Request(code.DELETE_EXPIRED_COMMITLOG, {}),
        Request(code.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "0"}),
        Request(code.AUTH_CREATE_USER, {"username": "eve"}, _json({"password": NEW_PASSWORD, "userType": "Super"})),
        Request(code.AUTH_UPDATE_USER, {"username": "alice"}, _json({"password": NEW_PASSWORD})),
        Request(code.AUTH_LIST_USER, {"sealed": "true"}),
        Request(code.AUTH_CREATE_ACL, {"subject": "User:alice"}, _json(_EVERYTHING)),
        Request(code.AUTH_UPDATE_ACL, {"subject": "User:alice"}, _json(_EVERYTHING)),
        Request(code.AUTH_DELETE_ACL, {"subject": "User:alice"}),
        Request(code.AUTH_DELETE_USER, {"username": "alice"}),
        Request(code.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP, "cleanOffset": "true"}),
        Request(code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC}),
    ]  # fmt: skip


def nameserver_requests(broker: Command) -> list[Request]:
    """`broker` is the registration of a broker that the nameserver knows."""
    own = {name: broker.fields[name] for name in ("brokerName", "brokerAddr", "clusterName", "brokerId")}
    thief = {**broker.fields, "brokerAddr": "127.0.0.1:6666"}
    code = RequestCode
    return [
        Request(code.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "forged"}),
        Request(code.DELETE_KV_CONFIG, {"namespace": "n", "key": "k"}),
        Request(code.UPDATE_NAMESRV_CONFIG, {}, b"returnOrderTopicConfigToBroker=false\n"),
        Request(code.GET_NAMESRV_CONFIG, {}),
        Request(code.REGISTER_BROKER, thief, broker.body),
        Request(code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": own["brokerName"]}),
        Request(code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": own["brokerName"]}),
        Request(code.DELETE_TOPIC_IN_NAMESRV, {"topic": TOPIC}),
        Request(code.UNREGISTER_BROKER, own),
    ]


def minimal_request(code: int) -> Request:
    """A request of any code, with every field of its header."""
    header = REQUESTS[code].header
    names = [name for _, name in wire_names(header)] if header is not None else []
    return Request(RequestCode(code), dict.fromkeys(names, "0") | {"topic": TOPIC})


def forgeries(request: Request) -> Iterator[tuple[str, Command]]:
    """Nobody who knows a password has signed these as they are."""
    code, fields, body = request
    right = signed_fields(fields, body, ROOT.name, ROOT.password)
    signature = right[SIGNATURE]
    forged = {
        "without credentials": fields,
        "of an unknown user": signed_fields(fields, body, "ghost", "ghost-secret"),
        "of a user without a name": signed_fields(fields, body, "", ROOT.password),
        "with a wrong password": signed_fields(fields, body, ROOT.name, "wrong-secret"),
        "with an empty password": signed_fields(fields, body, ROOT.name, ""),
        "with another user's signature": {**right, ACCESS_KEY: ALICE.name},
        "in another user's name": {**signed_fields(fields, body, ALICE.name, ALICE.password), ACCESS_KEY: ROOT.name},
        "without a signature": {name: value for name, value in right.items() if name != SIGNATURE},
        "with a changed field": {**right, **dict.fromkeys(list(fields)[:1], "changed"), "topic": "changed"},
        "with a field more": {**right, "more": "x"},
        "with a field that old clients do not sign": {**right, "_UNIQUE_KEY_QUERY": "true"},
        "with a token that was not signed": {**right, "SecurityToken": "token"},
    }
    malformed = ("", " ", signature + " ", signature[:-1], signature.lower(), "=" * 28, "ü" * 28, "0" * 4096, '"}', "\0" * 28)
    forged |= {f"with the signature {text[:30]!r}": {**right, SIGNATURE: text} for text in malformed}
    for why, changed in forged.items():
        yield why, Command(code, fields=changed, body=body)
    yield "with a changed body", Command(code, fields=right, body=body + b" ")
    yield "oneway, without credentials", Command(code, fields=fields, body=body, flag=ONEWAY_FLAG)


class Wire:
    """One connection to a server, which stays the same: one that the server closes fails the test."""

    def __init__(self, port: int, serialization: Serialization = Serialization.JSON) -> None:
        self.name = f"port {port}, {serialization.name}"
        self._serialization = serialization
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX)
        self._decoder = CommandDecoder()
        self._opaque = 0
        self.peer = "{}:{}".format(*self._socket.getsockname())

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def ask(self, command: Command) -> Command:
        (answer,) = self.ask_all([("", command)])
        assert answer is not None
        return answer

    def ask_as(self, keys: AccessKeys, code: int, body: bytes = b"", **fields: Any) -> Command:
        return self.ask(Request(RequestCode(code), {name: str(value) for name, value in fields.items()}, body).signed_by(keys))

    def ask_all(self, named: Sequence[tuple[str, Command]]) -> list[Command | None]:
        """Send all at once and return their answers; None for oneway requests, which must get none."""
        waiting: dict[int, str] = {}
        opaques: list[int] = []
        for name, command in named:
            self._opaque += 1
            command.opaque = self._opaque
            fits = command.code <= BINARY_CODE_MAX  # those of the POP family go in JSON, as Apache's clients send them
            command.serialization = self._serialization if fits else Serialization.JSON
            opaques.append(self._opaque)
            if not command.is_oneway:
                waiting[self._opaque] = f"{REQUESTS[command.code].name} {name}, {self.name}"
        self._socket.sendall(b"".join(encode_command(command) for _, command in named))
        found: dict[int, Command] = {}
        while waiting:
            piece = self._socket.recv(65_536)
            assert piece, f"The server closed the connection before it answered {next(iter(waiting.values()))}"
            for answer in self._decoder.feed(piece):
                if answer.is_response:  # a broker also sends requests to its clients
                    assert waiting.pop(answer.opaque, None), f"an answer that nobody waits for: {answer}"
                    found[answer.opaque] = answer
        return [found.get(opaque) for opaque in opaques]
