"""Sending of messages, batches and replies, sending back by a consumer, and the recall of a timed message."""

from __future__ import annotations

from msgspec import field, structs

from skyrocket.protocol.header import Header, Int32, Int64, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class SendMessageRequestHeader(TopicHeader, kw_only=True):
    """10 and 324 (a reply): a send with the long field names of old clients."""

    producer_group: str
    topic: TopicName
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None

    def to_v2(self) -> SendMessageRequestHeaderV2:
        """Convert to V2, the form that handlers take and nearly every client sends."""
        values = structs.asdict(self)
        values["broker_name"] = values.pop("rpc_broker_name")
        return SendMessageRequestHeaderV2(**values)


class SendMessageRequestHeaderV2(TopicHeader, kw_only=True):
    """310, 320 (a batch) and 325 (a reply): a send with field names of one letter, which are faster to send and to parse."""

    producer_group: str = field(name="a")
    topic: TopicName = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int32 | None = field(name="j", default=None)
    unit_mode: bool | None = field(name="k", default=None)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool | None = field(name="m", default=None)
    broker_name: str | None = field(name="n", default=None)

    def to_v1(self) -> SendMessageRequestHeader:
        """`n` is what V1 calls `bname`; a `bname` of V2 itself, which Apache does not send, gives way to it."""
        values = structs.asdict(self)
        broker_name = values.pop("broker_name")
        if broker_name is not None:
            values["rpc_broker_name"] = broker_name
        return SendMessageRequestHeader(**values)


class SendMessageResponseHeader(Header, kw_only=True):
    """10, 310, 320, 324, 325: the response, with the id and offset of the message."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = field(name="MSG_REGION", default=None)  # this and the next: added beside Java's header class
    trace_on: bool | None = field(name="TRACE_ON", default=None)


class ConsumerSendMsgBackRequestHeader(RpcHeader, kw_only=True):
    """36: send back a message that a consumer could not handle, to retry it later or make it a dead letter."""

    offset: Int64
    group: GroupName
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: TopicName | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class ReplyMessageRequestHeader(TopicHeader, kw_only=True):
    """326: the broker pushes a reply to the client that waits for it."""

    producer_group: GroupName
    topic: TopicName
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


class RecallMessageRequestHeader(TopicHeader, kw_only=True):
    """370: recall a timed message before its delivery."""

    producer_group: str | None = None
    topic: TopicName
    recall_handle: str


class RecallMessageResponseHeader(Header, kw_only=True):
    """370: the response, with the id of the recalled message."""

    msg_id: str
