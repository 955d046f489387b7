"""Where a request goes: to a nameserver, or to the broker that it names. Pure.

Clients of 5.x write the name of the broker into a field of each request that is about a queue. Requests about a client's groups
name no broker: a client sends its heartbeat to each broker that it uses, and a member of a group is known to those alone.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from skyrocket.protocol.bodies import LockBatchRequestBody, UnlockBatchRequestBody
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode_request
from skyrocket.protocol.requests import CLUSTER_UPDATE, REQUESTS, Direction, RequestCode


class Receiver(Enum):
    NAMESERVER = "a nameserver"
    NAMED_BROKER = "the broker that the request names"
    NAMESERVER_ADMIN = "a nameserver, if administrators may use it through the proxy"
    ANY_BROKER = "any broker that has the client's heartbeats"
    EVERY_BROKER = "every broker that the client uses; their answers become one"
    ONLY_BROKER = "the only broker of the cluster"  # the request names none
    NOBODY = "nobody: only servers send such requests"


class Destination(NamedTuple):
    receiver: Receiver
    broker: str = ""  # of NAMED_BROKER


_WITHOUT_A_NAME: Final = {
    RequestCode.HEART_BEAT: Receiver.EVERY_BROKER,
    RequestCode.UNREGISTER_CLIENT: Receiver.EVERY_BROKER,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Receiver.EVERY_BROKER,
    RequestCode.QUERY_ASSIGNMENT: Receiver.ANY_BROKER,
    RequestCode.CHECK_CLIENT_CONFIG: Receiver.ANY_BROKER,
}
_NAME_IN_BODY: Final = {
    RequestCode.LOCK_BATCH_MQ: LockBatchRequestBody,
    RequestCode.UNLOCK_BATCH_MQ: UnlockBatchRequestBody,
}
_SHORT_NAMES: Final = frozenset({RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2})
_TO_NAMESERVER: Final = Direction.CLIENT_TO_NAMESERVER | Direction.ADMIN_TO_NAMESERVER
_TO_BROKER: Final = Direction.CLIENT_TO_BROKER | Direction.ADMIN_TO_BROKER
BROKER_NAME: Final = "bname"
_SHORT_BROKER_NAME: Final = "n"


def find_destination(request: Command) -> Destination:
    """Decide where a request goes."""
    code, spec = request.code, REQUESTS.get(request.code)
    if spec is not None and spec.direction & _TO_NAMESERVER:
        is_admin = code == RequestCode.GET_NAMESRV_CONFIG or spec.permission == CLUSTER_UPDATE
        return Destination(Receiver.NAMESERVER_ADMIN if is_admin else Receiver.NAMESERVER)
    if spec is not None and not spec.direction & _TO_BROKER:
        return Destination(Receiver.NOBODY)
    fixed = _WITHOUT_A_NAME.get(code)  # type: ignore[call-overload]  # a code that no row has is no key either
    if fixed is not None:
        return Destination(fixed)
    name = request.fields.get(_SHORT_BROKER_NAME if code in _SHORT_NAMES else BROKER_NAME) or _name_in_body(request)
    return Destination(Receiver.NAMED_BROKER, name) if name else Destination(Receiver.ONLY_BROKER)


def _name_in_body(request: Command) -> str:
    """Return the name of the broker whose queues a request locks or unlocks; empty when there is none."""
    body_type = _NAME_IN_BODY.get(request.code)  # type: ignore[call-overload]
    if body_type is None:
        return ""
    try:
        queues = decode_request(request.body, body_type).mq_set
    except ProtocolError:
        return ""
    return queues[0].broker_name or "" if queues else ""
