"""Response codes: the outcome of a request. A code above 0 need not be an error: PULL_NOT_FOUND, for example, is routine.

Three numbers had another meaning in 4.9, in responses to its administrator's tool about ACL 1.0:

    209   5.x POLLING_FULL        4.9 UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    210   5.x POLLING_TIMEOUT     4.9 DELETE_ACL_CONFIG_FAILED
    211   5.x BROKER_NOT_EXIST    4.9 UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ResponseCode(IntEnum):
    """Apache's names and numbers."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2  # flow control: the client tries another broker
    REQUEST_CODE_NOT_SUPPORTED = 3  # the response to an unknown code
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10  # stored, but not flushed in time: lost if this machine fails
    SLAVE_NOT_AVAILABLE = 11  # stored on the master; there is no slave
    FLUSH_SLAVE_TIMEOUT = 12  # stored on the master; the slave has not confirmed it
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16  # also for an invalid signature
    TOPIC_NOT_EXIST = 17  # a producer then fetches the route of TBW102
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19  # pull: nothing new
    PULL_RETRY_IMMEDIATELY = 20  # pull: no message passed the filter; continue at nextBeginOffset
    PULL_OFFSET_MOVED = 21  # pull: the offset is outside the queue; continue at nextBeginOffset
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    TRANSACTION_SHOULD_COMMIT = 200
    TRANSACTION_SHOULD_ROLLBACK = 201
    TRANSACTION_STATE_UNKNOW = 202
    TRANSACTION_STATE_GROUP_WRONG = 203
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    POLLING_FULL = 209  # pop: too many requests are waiting
    POLLING_TIMEOUT = 210  # pop: no message arrived in time
    BROKER_NOT_EXIST = 211
    BROKER_DISPATCH_NOT_COMPLETE = 212
    BROADCAST_CONSUMPTION = 213
    FLOW_CONTROL = 215
    NOT_LEADER_FOR_QUEUE = 501
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500  # a 5.x client opens a new connection and sends the request again
    CONTROLLER_FENCED_MASTER_EPOCH = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001
    CONTROLLER_INVALID_MASTER = 2002
    CONTROLLER_INVALID_REPLICAS = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004
    CONTROLLER_INVALID_REQUEST = 2005
    CONTROLLER_BROKER_NOT_ALIVE = 2006
    CONTROLLER_NOT_LEADER = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010
    CONTROLLER_MASTER_STILL_EXIST = 2011
    CONTROLLER_ELECT_MASTER_FAILED = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013
    CONTROLLER_BROKER_ID_INVALID = 2014
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016
    LMQ_QUOTA_EXCEEDED = 2017
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 2018
    USER_NOT_EXIST = 3001
    POLICY_NOT_EXIST = 3002
    # failures of a 5.x broker's calls to other brokers
    RPC_TIME_OUT = -1006
    RPC_SEND_TO_CHANNEL_FAILED = -1004
    RPC_ADDR_IS_NULL = -1002
    RPC_UNKNOWN = -1000


PROXY_FAILURE: Final = "proxyFailure"
"""A field of a response that our proxy gives in the place of a broker. Apache's clients pass over it."""
NOT_SENT: Final = "notSent"
"""Its value when the broker did not get the request."""
CONNECTION_LOST: Final = "connectionLost"
"""Its value when the broker got the request and did not answer it: whether it carried it out is unknown."""

V4_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        ResponseCode.POLLING_FULL: "UPDATE_AND_CREATE_ACL_CONFIG_FAILED",
        ResponseCode.POLLING_TIMEOUT: "DELETE_ACL_CONFIG_FAILED",
        ResponseCode.BROKER_NOT_EXIST: "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
    }
)
"""The names of these codes in a 4.9 broker's response to 50, 51 or 53."""


def response_name(code: int) -> str:
    """Return the name of a response code, or the number as text if the code is unknown."""
    known = ResponseCode._value2member_map_.get(code)
    return known.name if known is not None else str(code)
