"""What a slave refuses, by request code: messages, and changes that only its master may make.

    messages to store                    SYSTEM_BUSY, as Apache's slave answers; producers then try another broker
    ends of transactions, recalls        SLAVE_NOT_AVAILABLE
    topics, groups, resets of offsets    SYSTEM_ERROR, with a sentence that names the master's part
    pulls, without slaveReadEnable       SYSTEM_BUSY

Apache's slave accepts changes of topics and groups, and forgets them when it copies its master's tables the next time. It also
deletes the queues of a topic that exists at its master. So this slave refuses them.
"""

from __future__ import annotations

from typing import Final

from skyrocket.net.router import Refusal
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

_REJECTED: Final = "[REJECTREQUEST]system busy, start flow control for a while"  # the words that Apache's clients know
_TAKES_NO_MESSAGES: Final = Refusal(ResponseCode.SYSTEM_BUSY, f"{_REJECTED}: this broker is a slave and takes no messages.")
_GIVES_NO_MESSAGES: Final = Refusal(
    ResponseCode.SYSTEM_BUSY, f"{_REJECTED}: this broker is a slave, and slaveReadEnable is false."
)
_CHANGES_NOTHING: Final = Refusal(
    ResponseCode.SYSTEM_ERROR, "This broker is a slave: it copies topics and groups from its master. Change them there."
)

_ALWAYS: Final[dict[int, Refusal]] = {
    **dict.fromkeys(
        (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.CONSUMER_SEND_MSG_BACK,
        ),
        _TAKES_NO_MESSAGES,
    ),
    RequestCode.END_TRANSACTION: Refusal(
        ResponseCode.SLAVE_NOT_AVAILABLE, "This broker is a slave: transactions end at its master."
    ),
    RequestCode.RECALL_MESSAGE: Refusal(
        ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available: this broker is a slave."
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Refusal(
        ResponseCode.SYSTEM_ERROR, "This broker is a slave: its master checks half messages."
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Refusal(
        ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker. Reset it at the master."
    ),
    **dict.fromkeys(
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            RequestCode.DELETE_TOPIC_IN_BROKER,
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        ),
        _CHANGES_NOTHING,
    ),
}
_PULLS: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})


def slave_refusal(code: int, *, serves_reads: bool) -> Refusal | None:
    """Say why a slave refuses a request; None when it serves it. `serves_reads` is the setting slaveReadEnable."""
    if not serves_reads and code in _PULLS:
        return _GIVES_NO_MESSAGES
    return _ALWAYS.get(code)
