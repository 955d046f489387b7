"""The receipt that a producer gets for a message: where the broker stored it, under which ids, and how safely."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from skyrocket.client.errors import BrokerError
from skyrocket.client.queues import Queue
from skyrocket.client.session.proxy_failures import check_proxy
from skyrocket.client.session.send_responses import SendResponse
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.properties import MESSAGE_REGION, TRACE_ON
from skyrocket.protocol.responses import ResponseCode


class SendStatus(StrEnum):
    """How safely the broker stored the message. With any status but OK, the message could be lost if the broker died now."""

    OK = "OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # sync flush is configured, and the flush did not finish in time
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # the replica did not confirm the message in time
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # sync replication is configured, and no replica is connected


_OK: Final = SendStatus.OK  # a plain name: looking up a member of an enumeration is slow
_STATUS_OF_CODE: Final = {
    int(ResponseCode.SUCCESS): SendStatus.OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """A broker's acknowledgement of one message, or of one batch."""

    status: SendStatus
    message_id: str  # the unique id, which travels with the message; of a batch: all ids, separated by commas
    offset_id: str  # the message's position in its broker's commit log
    queue: Queue
    queue_offset: int
    transaction_id: str = ""
    recall_handle: str = ""  # of a timed message: pass it to `Producer.recall`
    region_id: str = ""  # the broker's region, for traces; known to producers with `trace`
    is_trace_on: bool = True  # whether the broker wants traces; known to producers with `trace`

    @property
    def is_safe(self) -> bool:
        """Whether the flush and replication that the broker is configured for are done."""
        return self.status is _OK


def build_receipt(
    response: Command | SendResponse, message_id: str, queue: Queue, address: str, *, reads_region: bool = False
) -> Receipt:
    """Build the receipt from a broker's response. Raise BrokerError when the broker refused the message.

    A proxy that could not ask the broker, or lost its answer, raises ConnectError or ConnectionLostError, as if the client had.
    With `reads_region`, the receipt of a command has the broker's region and trace switch, too.
    """
    if type(response) is SendResponse:
        at = response.at
        if at.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=at.queue_id)
        return Receipt(_OK, message_id, at.offset_id, queue, at.queue_offset, at.transaction_id, at.recall_handle)
    assert isinstance(response, Command)
    status = _STATUS_OF_CODE.get(response.code)
    if status is None:
        check_proxy(response, address)
        raise BrokerError(response.code, response.remark or "", address)
    fields = response.fields
    try:
        queue_id, queue_offset, offset_id = int(fields["queueId"]), int(fields["queueOffset"]), fields["msgId"]
    except (KeyError, ValueError) as error:
        remark = f"The broker stored the message, but its response lacks the position or has a malformed one ({error})."
        raise BrokerError(response.code, remark, address) from error
    if queue_id != queue.queue_id:
        queue = queue._replace(queue_id=queue_id)
    return Receipt(
        status,
        message_id,
        offset_id,
        queue,
        queue_offset,
        fields.get("transactionId", ""),
        fields.get("recallHandle", ""),
        fields.get(MESSAGE_REGION, "") if reads_region else "",
        not reads_region or fields.get(TRACE_ON) != "false",
    )
