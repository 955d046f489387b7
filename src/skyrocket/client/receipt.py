"""What a producer gets for a message: where it is, under which names, and how safe."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from skyrocket.client.errors import BrokerError
from skyrocket.client.producer.send_response import SendAnswer
from skyrocket.client.queues import Queue
from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import ResponseCode


class SendStatus(StrEnum):
    """All of these say that the broker has it. Those beyond OK: that it might lose it if it died now."""

    OK = "OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # not known to be on disk yet, where sync flush was promised
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # the replica has not confirmed it yet
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # there is no replica to confirm it


_OK: Final = SendStatus.OK  # a plain name: members of enumerations are slow to look up
_STATUSES: Final = {
    ResponseCode.SUCCESS: SendStatus.OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
_statuses_by_number: Final = {int(code): status for code, status in _STATUSES.items()}


class Receipt(msgspec.Struct, frozen=True, gc=False):
    status: SendStatus
    message_id: str  # the unique id, which travels with the message; of a batch: all, with commas between
    offset_id: str  # where it lies at its broker
    queue: Queue
    queue_offset: int
    transaction_id: str = ""
    recall_handle: str = ""  # with which a timed message can be taken back

    @property
    def is_safe(self) -> bool:
        """Everything that the broker promises is done."""
        return self.status is _OK


def receipt_from(answer: Command | SendAnswer, message_id: str, queue: Queue, address: str) -> Receipt:
    """From a broker's answer. BrokerError when it is a no."""
    if type(answer) is SendAnswer:
        at = answer.at
        if at.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=at.queue_id)
        return Receipt(_OK, message_id, at.offset_id, queue, at.queue_offset, at.transaction_id, at.recall_handle)
    assert isinstance(answer, Command)
    status = _statuses_by_number.get(answer.code)
    if status is None:
        raise BrokerError(answer.code, answer.remark or "", address)
    fields = answer.fields
    try:
        queue_id, queue_offset, offset_id = int(fields["queueId"]), int(fields["queueOffset"]), fields["msgId"]
    except (KeyError, ValueError) as error:
        raise BrokerError(answer.code, f"the message is stored, but not said where ({error}).", address) from error
    if queue_id != queue.queue_id:
        queue = queue._replace(queue_id=queue_id)
    return Receipt(
        status, message_id, offset_id, queue, queue_offset, fields.get("transactionId", ""), fields.get("recallHandle", "")
    )
