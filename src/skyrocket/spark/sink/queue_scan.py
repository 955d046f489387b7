"""Reads a part of a queue with plain pulls from its master. No consumer group's offsets change."""

from __future__ import annotations

from collections.abc import AsyncIterator

from skyrocket.client.consumer.pull.pull_policy import PullStatus
from skyrocket.client.consumer.pull.pull_request import decode_pull_response
from skyrocket.client.consumer.subscription import TAG
from skyrocket.client.errors import ClientError, UnreachableError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.message.record import RecordParts, split_records
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION
from skyrocket.protocol.system_names import TOOLS_GROUP

_MESSAGES = 1_024
_BYTES = 4 * 1024 * 1024


async def master_address(session: Session, queue: Queue) -> str:
    address = session.routes.address(queue.broker_name)
    if address is None:
        session.routes.forget(queue.topic)
        await session.route(queue.topic)
        address = session.routes.address(queue.broker_name)
    if address is None:
        raise UnreachableError(f"The nameservers have no address of the master of broker {queue.broker_name}, which has {queue}.")
    return address


async def scan_queue(
    session: Session, queue: Queue, start: int, end: int, tag: str = EVERY_TAG
) -> AsyncIterator[list[RecordParts]]:
    """Yield the records from offset `start` up to `end`, or a little beyond.

    With a tag, yield records that may have it: brokers compare hashes of tags.
    """
    at = start
    while at < end:
        header = PullMessageRequestHeader(
            consumer_group=TOOLS_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=at,
            max_msg_nums=_MESSAGES,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=tag,
            sub_version=0,
            expression_type=TAG,
            max_msg_bytes=_BYTES,
            rpc_broker_name=queue.broker_name,
        )
        address = await master_address(session, queue)
        response = decode_pull_response(
            await session.request(address, Command(RequestCode.PULL_MESSAGE, fields=header.to_fields())), address
        )
        if response.records:
            try:
                yield split_records(response.records)
            except RecordError as error:
                raise ClientError(f"{queue} has a damaged record: {error}") from error
        if response.next_offset <= at:
            if response.status is PullStatus.FOUND or response.status is PullStatus.OFFSET_ILLEGAL:
                raise ClientError(f"{queue} cannot be read past offset {at}: its broker continues at {response.next_offset}.")
            return  # the end of the queue
        at = response.next_offset
