"""The table of requests: for each code its direction, permission, headers and bodies.

Two kinds of Apache's codes are missing: those that it declares but neither sends nor handles, and those that it only writes
into the log of its controllers. A server responds to them as to any unknown code.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, Flag, IntEnum, auto
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from skyrocket.protocol import bodies as b
from skyrocket.protocol import headers as h
from skyrocket.protocol.bodies import dledger as d
from skyrocket.protocol.header import Header
from skyrocket.protocol.permissions import Action, Permission, Resource


class Direction(Flag):
    """The sender and receiver of a request. An administrator's tool is a client, listed apart because it may do more."""

    CLIENT_TO_BROKER = auto()
    ADMIN_TO_BROKER = auto()
    BROKER_TO_BROKER = auto()
    SLAVE_TO_MASTER = auto()
    NAMESERVER_TO_BROKER = auto()
    CONTROLLER_TO_BROKER = auto()
    FILTER_SERVER_TO_BROKER = auto()
    BROKER_TO_CLIENT = auto()
    CLIENT_TO_NAMESERVER = auto()
    ADMIN_TO_NAMESERVER = auto()
    BROKER_TO_NAMESERVER = auto()
    BROKER_TO_CONTROLLER = auto()
    ADMIN_TO_CONTROLLER = auto()
    ADMIN_TO_CONTAINER = auto()  # Apache's broker container: a process with several brokers
    CLIENT_TO_FILTER_SERVER = auto()


CLIENT_BROKER = Direction.CLIENT_TO_BROKER
ADMIN_BROKER = Direction.ADMIN_TO_BROKER
BROKER_BROKER = Direction.BROKER_TO_BROKER
SLAVE_MASTER = Direction.SLAVE_TO_MASTER
NAMESERVER_BROKER = Direction.NAMESERVER_TO_BROKER
CONTROLLER_BROKER = Direction.CONTROLLER_TO_BROKER
FILTER_SERVER_BROKER = Direction.FILTER_SERVER_TO_BROKER
BROKER_CLIENT = Direction.BROKER_TO_CLIENT
CLIENT_NAMESERVER = Direction.CLIENT_TO_NAMESERVER
ADMIN_NAMESERVER = Direction.ADMIN_TO_NAMESERVER
BROKER_NAMESERVER = Direction.BROKER_TO_NAMESERVER
BROKER_CONTROLLER = Direction.BROKER_TO_CONTROLLER
ADMIN_CONTROLLER = Direction.ADMIN_TO_CONTROLLER
ADMIN_CONTAINER = Direction.ADMIN_TO_CONTAINER
CLIENT_FILTER_SERVER = Direction.CLIENT_TO_FILTER_SERVER

TO_BROKER: Final = (
    CLIENT_BROKER | ADMIN_BROKER | BROKER_BROKER | SLAVE_MASTER | NAMESERVER_BROKER | CONTROLLER_BROKER | FILTER_SERVER_BROKER
)
TO_CLIENT: Final = BROKER_CLIENT
TO_NAMESERVER: Final = CLIENT_NAMESERVER | ADMIN_NAMESERVER | BROKER_NAMESERVER
TO_CONTROLLER: Final = BROKER_CONTROLLER | ADMIN_CONTROLLER


class Raw(Enum):
    """Kinds of body that are not one JSON object."""

    NONE = "none"
    MESSAGE = "message"  # the body of one message, compressed or not
    BATCH = "batch"
    RECORD = "record"
    RECORDS = "records"  # one after another
    PROPERTIES_TEXT = "properties text"  # lines of key=value
    JSON_TEXT = "JSON text"  # without a fixed schema, for people to read
    TEXT = "text"
    BINARY = "binary"


NONE = Raw.NONE
BodyKind: TypeAlias = type[b.Body] | type[list[Any]] | Raw

# Permissions are Apache's: those that its header classes declare or, for requests that its authorization handles by code, those
# that it checks there. For the remaining requests, Apache admits every client with a valid signature. Here such a request needs
# the permission of a similar one (361 that of 11, a list of topics that of another list), or a permission on the cluster.
PUB = Permission(Resource.IN_HEADER, Action.PUB)
SUB = Permission(Resource.IN_HEADER, Action.SUB)
GET = Permission(Resource.IN_HEADER, Action.GET)
CREATE = Permission(Resource.IN_HEADER, Action.CREATE)
UPDATE = Permission(Resource.IN_HEADER, Action.UPDATE)
DELETE = Permission(Resource.IN_HEADER, Action.DELETE)
SUB_OR_GET = Permission(Resource.IN_HEADER, Action.SUB | Action.GET)
SUB_OR_UPDATE = Permission(Resource.IN_HEADER, Action.SUB | Action.UPDATE)
ANY_USE = Permission(Resource.IN_HEADER, Action.PUB | Action.SUB | Action.GET)
BODY_SUB = Permission(Resource.IN_BODY, Action.SUB)
BODY_CREATE = Permission(Resource.IN_BODY, Action.CREATE)
BODY_UPDATE = Permission(Resource.IN_BODY, Action.UPDATE)
TOPICS_GET = Permission(Resource.TOPIC, Action.GET)
TOPICS_LIST = Permission(Resource.TOPIC, Action.LIST)
GROUPS_GET = Permission(Resource.GROUP, Action.GET)
CLUSTER_GET = Permission(Resource.CLUSTER, Action.GET)
CLUSTER_UPDATE = Permission(Resource.CLUSTER, Action.UPDATE)


class RequestSpec(NamedTuple):
    """A row of the table: the direction, permission, headers and bodies of one request code."""

    code: RequestCode
    direction: Direction
    permission: Permission
    header: type[Header] | None = None
    response_header: type[Header] | None = None
    body: BodyKind = NONE
    response_body: BodyKind = NONE

    @property
    def name(self) -> str:
        return self.code.name


class RequestCode(IntEnum):
    """The table: Apache's names and numbers, each followed by the rest of its row in the order of `RequestSpec`."""

    request: RequestSpec

    def __new__(cls, code: int, *_row: Any) -> RequestCode:
        member = int.__new__(cls, code)
        member._value_ = code
        return member

    def __init__(self, _code: int, *row: Any) -> None:
        self.request = RequestSpec(self, *row)

    # One or two lines per row.
    # fmt: off
    # sending
    SEND_MESSAGE = 10, CLIENT_BROKER, PUB, h.SendMessageRequestHeader, h.SendMessageResponseHeader, Raw.MESSAGE
    SEND_MESSAGE_V2 = 310, CLIENT_BROKER, PUB, h.SendMessageRequestHeaderV2, h.SendMessageResponseHeader, Raw.MESSAGE
    SEND_BATCH_MESSAGE = 320, CLIENT_BROKER, PUB, h.SendMessageRequestHeaderV2, h.SendMessageResponseHeader, Raw.BATCH
    SEND_REPLY_MESSAGE = 324, CLIENT_BROKER, PUB, h.SendMessageRequestHeader, h.SendMessageResponseHeader, Raw.MESSAGE
    SEND_REPLY_MESSAGE_V2 = 325, CLIENT_BROKER, PUB, h.SendMessageRequestHeaderV2, h.SendMessageResponseHeader, Raw.MESSAGE
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326, BROKER_CLIENT, SUB, h.ReplyMessageRequestHeader, None, Raw.MESSAGE
    CONSUMER_SEND_MSG_BACK = 36, CLIENT_BROKER, SUB, h.ConsumerSendMsgBackRequestHeader
    RECALL_MESSAGE = 370, CLIENT_BROKER, PUB, h.RecallMessageRequestHeader, h.RecallMessageResponseHeader
    # transactions
    END_TRANSACTION = 37, CLIENT_BROKER, PUB, h.EndTransactionRequestHeader, h.EndTransactionResponseHeader
    CHECK_TRANSACTION_STATE = 39, BROKER_CLIENT, PUB, h.CheckTransactionStateRequestHeader, None, Raw.RECORD
    RESUME_CHECK_HALF_MESSAGE = 323, ADMIN_BROKER, UPDATE, h.ResumeCheckHalfMessageRequestHeader
    # pulling and querying messages
    PULL_MESSAGE = (11, CLIENT_BROKER | BROKER_BROKER, SUB,
        h.PullMessageRequestHeader, h.PullMessageResponseHeader, NONE, Raw.RECORDS)
    LITE_PULL_MESSAGE = 361, CLIENT_BROKER, SUB, h.PullMessageRequestHeader, h.PullMessageResponseHeader, NONE, Raw.RECORDS
    QUERY_MESSAGE = (12, CLIENT_BROKER | ADMIN_BROKER, SUB_OR_GET,
        h.QueryMessageRequestHeader, h.QueryMessageResponseHeader, NONE, Raw.RECORDS)
    VIEW_MESSAGE_BY_ID = (33, CLIENT_BROKER | ADMIN_BROKER, GET,
        h.ViewMessageRequestHeader, h.ViewMessageResponseHeader, NONE, Raw.RECORD)
    QUERY_CONSUME_QUEUE = 321, ADMIN_BROKER, GET, h.QueryConsumeQueueRequestHeader, None, NONE, b.QueryConsumeQueueResponseBody
    CONSUME_MESSAGE_DIRECTLY = (309, ADMIN_BROKER | BROKER_CLIENT, SUB,
        h.ConsumeMessageDirectlyResultRequestHeader, None, Raw.RECORD, b.ConsumeMessageDirectlyResult)
    # popping
    POP_MESSAGE = 200050, CLIENT_BROKER, SUB, h.PopMessageRequestHeader, h.PopMessageResponseHeader, NONE, Raw.RECORDS
    ACK_MESSAGE = 200051, CLIENT_BROKER, SUB, h.AckMessageRequestHeader
    BATCH_ACK_MESSAGE = 200151, CLIENT_BROKER, BODY_SUB, None, None, b.BatchAckMessageRequestBody
    PEEK_MESSAGE = 200052, CLIENT_BROKER, SUB, h.PeekMessageRequestHeader, h.PopMessageResponseHeader, NONE, Raw.RECORDS
    CHANGE_MESSAGE_INVISIBLETIME = (200053, CLIENT_BROKER, SUB,
        h.ChangeInvisibleTimeRequestHeader, h.ChangeInvisibleTimeResponseHeader)
    NOTIFICATION = 200054, CLIENT_BROKER, SUB, h.NotificationRequestHeader, h.NotificationResponseHeader
    POLLING_INFO = 200055, ADMIN_BROKER, GET, h.PollingInfoRequestHeader, h.PollingInfoResponseHeader
    POP_ROLLBACK = 200056, ADMIN_BROKER, CLUSTER_UPDATE
    QUERY_ASSIGNMENT = 400, CLIENT_BROKER, BODY_SUB, None, None, b.QueryAssignmentRequestBody, b.QueryAssignmentResponseBody
    SET_MESSAGE_REQUEST_MODE = 401, ADMIN_BROKER, BODY_UPDATE, None, None, b.SetMessageRequestModeRequestBody
    GET_ALL_MESSAGE_REQUEST_MODE = 402, SLAVE_MASTER, CLUSTER_GET, None, None, NONE, b.MessageRequestModeSerializeWrapper
    # lite topics
    POP_LITE_MESSAGE = (200070, CLIENT_BROKER, SUB,
        h.PopLiteMessageRequestHeader, h.PopLiteMessageResponseHeader, NONE, Raw.RECORDS)
    LITE_SUBSCRIPTION_CTL = (200071, CLIENT_BROKER, BODY_SUB,
        h.LiteSubscriptionCtlRequestHeader, None, b.LiteSubscriptionCtlRequestBody)
    NOTIFY_UNSUBSCRIBE_LITE = 200073, BROKER_CLIENT, SUB, h.NotifyUnsubscribeLiteRequestHeader
    GET_BROKER_LITE_INFO = 200074, ADMIN_BROKER, CLUSTER_GET, None, None, NONE, b.GetBrokerLiteInfoResponseBody
    GET_PARENT_TOPIC_INFO = (200075, ADMIN_BROKER, GET,
        h.GetParentTopicInfoRequestHeader, None, NONE, b.GetParentTopicInfoResponseBody)
    GET_LITE_TOPIC_INFO = (200076, ADMIN_BROKER, CLUSTER_GET,
        h.GetLiteTopicInfoRequestHeader, None, NONE, b.GetLiteTopicInfoResponseBody)
    GET_LITE_CLIENT_INFO = (200077, ADMIN_BROKER, CLUSTER_GET,
        h.GetLiteClientInfoRequestHeader, None, NONE, b.GetLiteClientInfoResponseBody)
    GET_LITE_GROUP_INFO = 200078, ADMIN_BROKER, GET, h.GetLiteGroupInfoRequestHeader, None, NONE, b.GetLiteGroupInfoResponseBody
    TRIGGER_LITE_DISPATCH = 200079, ADMIN_BROKER, UPDATE, h.TriggerLiteDispatchRequestHeader
    # offsets
    QUERY_CONSUMER_OFFSET = 14, CLIENT_BROKER, SUB_OR_GET, h.QueryConsumerOffsetRequestHeader, h.QueryConsumerOffsetResponseHeader
    UPDATE_CONSUMER_OFFSET = (15, CLIENT_BROKER | ADMIN_BROKER, SUB_OR_UPDATE,
        h.UpdateConsumerOffsetRequestHeader, h.UpdateConsumerOffsetResponseHeader)
    SEARCH_OFFSET_BY_TIMESTAMP = 29, CLIENT_BROKER | ADMIN_BROKER, GET, h.SearchOffsetRequestHeader, h.SearchOffsetResponseHeader
    GET_MAX_OFFSET = 30, CLIENT_BROKER | ADMIN_BROKER, GET, h.GetMaxOffsetRequestHeader, h.GetMaxOffsetResponseHeader
    GET_MIN_OFFSET = 31, CLIENT_BROKER, GET, h.GetMinOffsetRequestHeader, h.GetMinOffsetResponseHeader
    GET_EARLIEST_MSG_STORETIME = (32, CLIENT_BROKER, GET,
        h.GetEarliestMsgStoretimeRequestHeader, h.GetEarliestMsgStoretimeResponseHeader)
    GET_ALL_CONSUMER_OFFSET = 43, SLAVE_MASTER, CLUSTER_GET, None, None, NONE, b.ConsumerOffsetSerializeWrapper
    GET_ALL_DELAY_OFFSET = 45, SLAVE_MASTER, CLUSTER_GET, None, None, NONE, b.DelayOffsetSerializeWrapper
    RESET_CONSUMER_CLIENT_OFFSET = 220, BROKER_CLIENT, UPDATE, h.ResetOffsetRequestHeader, None, b.ResetOffsetBody
    INVOKE_BROKER_TO_RESET_OFFSET = 222, ADMIN_BROKER, UPDATE, h.ResetOffsetRequestHeader, None, NONE, b.ResetOffsetBody
    GET_CONSUMER_STATUS_FROM_CLIENT = (221, BROKER_CLIENT, GET,
        h.GetConsumerStatusRequestHeader, None, NONE, b.GetConsumerStatusBody)
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = (223, ADMIN_BROKER, GET,
        h.GetConsumerStatusRequestHeader, None, NONE, b.GetConsumerStatusBody)
    QUERY_CONSUME_TIME_SPAN = 303, ADMIN_BROKER, GET, h.QueryConsumeTimeSpanRequestHeader, None, NONE, b.QueryConsumeTimeSpanBody
    QUERY_CORRECTION_OFFSET = 308, ADMIN_BROKER, GET, h.QueryCorrectionOffsetHeader, None, NONE, b.QueryCorrectionOffsetBody
    CLONE_GROUP_OFFSET = 314, ADMIN_BROKER, UPDATE, h.CloneGroupOffsetRequestHeader
    # clients and their groups
    HEART_BEAT = 34, CLIENT_BROKER, BODY_SUB, h.HeartbeatRequestHeader, h.HeartbeatResponseHeader, b.HeartbeatData
    UNREGISTER_CLIENT = 35, CLIENT_BROKER, SUB, h.UnregisterClientRequestHeader, h.UnregisterClientResponseHeader
    GET_CONSUMER_LIST_BY_GROUP = (38, CLIENT_BROKER, SUB_OR_GET,
        h.GetConsumerListByGroupRequestHeader, h.GetConsumerListByGroupResponseHeader, NONE, b.GetConsumerListByGroupResponseBody)
    NOTIFY_CONSUMER_IDS_CHANGED = 40, BROKER_CLIENT, SUB, h.NotifyConsumerIdsChangedRequestHeader
    LOCK_BATCH_MQ = (41, CLIENT_BROKER | BROKER_BROKER, BODY_SUB,
        h.LockBatchMqRequestHeader, None, b.LockBatchRequestBody, b.LockBatchResponseBody)
    UNLOCK_BATCH_MQ = 42, CLIENT_BROKER | BROKER_BROKER, BODY_SUB, h.UnlockBatchMqRequestHeader, None, b.UnlockBatchRequestBody
    CHECK_CLIENT_CONFIG = 46, CLIENT_BROKER, BODY_SUB, None, None, b.CheckClientRequestBody
    GET_CONSUMER_CONNECTION_LIST = (203, ADMIN_BROKER, GET,
        h.GetConsumerConnectionListRequestHeader, None, NONE, b.ConsumerConnection)
    GET_PRODUCER_CONNECTION_LIST = (204, ADMIN_BROKER, CLUSTER_GET,
        h.GetProducerConnectionListRequestHeader, None, NONE, b.ProducerConnection)
    GET_CONSUMER_RUNNING_INFO = (307, ADMIN_BROKER | BROKER_CLIENT, GET,
        h.GetConsumerRunningInfoRequestHeader, None, NONE, b.ConsumerRunningInfo)
    GET_ALL_PRODUCER_INFO = 328, ADMIN_BROKER, CLUSTER_GET, h.GetAllProducerInfoRequestHeader, None, NONE, b.ProducerTableInfo
    # topics
    UPDATE_AND_CREATE_TOPIC = 17, ADMIN_BROKER, CREATE, h.CreateTopicRequestHeader
    UPDATE_AND_CREATE_TOPIC_LIST = (18, ADMIN_BROKER, BODY_CREATE,
        h.CreateTopicListRequestHeader, None, b.CreateTopicListRequestBody)
    UPDATE_AND_CREATE_STATIC_TOPIC = 513, ADMIN_BROKER, CREATE, h.CreateTopicRequestHeader, None, b.TopicQueueMappingDetail
    GET_ALL_TOPIC_CONFIG = (21, ADMIN_BROKER | SLAVE_MASTER, TOPICS_GET,
        h.GetAllTopicConfigRequestHeader, h.GetAllTopicConfigResponseHeader, NONE, b.TopicConfigAndMappingSerializeWrapper)
    GET_TOPIC_STATS_INFO = 202, ADMIN_BROKER, GET, h.GetTopicStatsInfoRequestHeader, None, NONE, b.TopicStatsTable
    DELETE_TOPIC_IN_BROKER = 215, ADMIN_BROKER, DELETE, h.DeleteTopicRequestHeader
    DELETE_TOPIC_IN_NAMESRV = 216, ADMIN_NAMESERVER, CLUSTER_UPDATE, h.DeleteTopicFromNamesrvRequestHeader
    REGISTER_TOPIC_IN_NAMESRV = 217, BROKER_NAMESERVER, CLUSTER_UPDATE, h.RegisterTopicRequestHeader, None, b.TopicRouteData
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206, ADMIN_NAMESERVER, TOPICS_LIST, None, None, NONE, b.TopicList
    GET_TOPICS_BY_CLUSTER = 224, ADMIN_NAMESERVER, TOPICS_LIST, h.GetTopicsByClusterRequestHeader, None, NONE, b.TopicList
    QUERY_TOPIC_CONSUME_BY_WHO = 300, ADMIN_BROKER, GET, h.QueryTopicConsumeByWhoRequestHeader, None, NONE, b.GroupList
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304, ADMIN_NAMESERVER, TOPICS_LIST, None, None, NONE, b.TopicList
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305, ADMIN_BROKER, TOPICS_LIST, None, None, NONE, b.TopicList
    GET_UNIT_TOPIC_LIST = 311, ADMIN_NAMESERVER, TOPICS_LIST, None, None, NONE, b.TopicList
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312, ADMIN_NAMESERVER, TOPICS_LIST, None, None, NONE, b.TopicList
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313, ADMIN_NAMESERVER, TOPICS_LIST, None, None, NONE, b.TopicList
    GET_TOPIC_CONFIG = 351, ADMIN_BROKER, GET, h.GetTopicConfigRequestHeader, None, NONE, b.TopicConfigAndQueueMapping
    # subscription groups
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200, ADMIN_BROKER, BODY_CREATE, None, None, b.SubscriptionGroupConfig
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225, ADMIN_BROKER, BODY_CREATE, None, None, b.SubscriptionGroupList
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = (201, ADMIN_BROKER | SLAVE_MASTER, GROUPS_GET,
        h.GetAllSubscriptionGroupRequestHeader, h.GetAllSubscriptionGroupResponseHeader, NONE, b.SubscriptionGroupWrapper)
    DELETE_SUBSCRIPTIONGROUP = 207, ADMIN_BROKER, DELETE, h.DeleteSubscriptionGroupRequestHeader
    QUERY_TOPICS_BY_CONSUMER = 343, ADMIN_BROKER, GET, h.QueryTopicsByConsumerRequestHeader, None, NONE, b.TopicList
    QUERY_SUBSCRIPTION_BY_CONSUMER = (345, ADMIN_BROKER, GET,
        h.QuerySubscriptionByConsumerRequestHeader, None, NONE, b.QuerySubscriptionResponseBody)
    GET_SUBSCRIPTIONGROUP_CONFIG = (352, ADMIN_BROKER, GET,
        h.GetSubscriptionGroupConfigRequestHeader, None, NONE, b.SubscriptionGroupConfig)
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353, ADMIN_BROKER, UPDATE, h.UpdateGroupForbiddenRequestHeader, None, NONE, b.GroupForbidden
    # administration of brokers
    UPDATE_BROKER_CONFIG = 25, ADMIN_BROKER, CLUSTER_UPDATE, None, None, Raw.PROPERTIES_TEXT
    GET_BROKER_CONFIG = 26, ADMIN_BROKER, CLUSTER_GET, None, h.GetBrokerConfigResponseHeader, NONE, Raw.PROPERTIES_TEXT
    GET_BROKER_RUNTIME_INFO = 28, ADMIN_BROKER, CLUSTER_GET, None, None, NONE, b.KVTable
    GET_CONSUME_STATS = 208, ADMIN_BROKER, GET, h.GetConsumeStatsRequestHeader, None, NONE, b.ConsumeStats
    VIEW_BROKER_STATS_DATA = 315, ADMIN_BROKER, CLUSTER_GET, h.ViewBrokerStatsDataRequestHeader, None, NONE, b.BrokerStatsData
    GET_BROKER_CONSUME_STATS = 317, ADMIN_BROKER, CLUSTER_GET, h.GetConsumeStatsInBrokerHeader, None, NONE, b.ConsumeStatsList
    CLEAN_EXPIRED_CONSUMEQUEUE = 306, ADMIN_BROKER, CLUSTER_UPDATE
    CLEAN_UNUSED_TOPIC = 316, ADMIN_BROKER, CLUSTER_UPDATE
    DELETE_EXPIRED_COMMITLOG = 329, ADMIN_BROKER, CLUSTER_UPDATE
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS = (354, ADMIN_BROKER, GET,
        h.CheckRocksdbCqWriteProgressRequestHeader, None, NONE, b.CheckRocksdbCqWriteResult)
    EXPORT_ROCKSDB_CONFIG_TO_JSON = 355, ADMIN_BROKER, CLUSTER_GET, h.ExportRocksDBConfigToJsonRequestHeader
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = 2001, ADMIN_BROKER, CLUSTER_UPDATE, None, None, Raw.PROPERTIES_TEXT
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = 2002, ADMIN_BROKER, CLUSTER_UPDATE, None, None, Raw.TEXT
    GET_COLD_DATA_FLOW_CTR_INFO = 2003, ADMIN_BROKER, CLUSTER_GET, None, None, NONE, Raw.JSON_TEXT
    SET_COMMITLOG_READ_MODE = 2004, ADMIN_BROKER, CLUSTER_UPDATE, h.SetCommitLogReadModeRequestHeader
    SWITCH_TIMER_ENGINE = 5001, ADMIN_BROKER, CLUSTER_UPDATE, h.SwitchTimerEngineRequestHeader
    ADD_BROKER = 902, ADMIN_CONTAINER, CLUSTER_UPDATE, h.AddBrokerRequestHeader
    REMOVE_BROKER = 903, ADMIN_CONTAINER, CLUSTER_UPDATE, h.RemoveBrokerRequestHeader
    # replication
    GET_TIMER_CHECK_POINT = 60, SLAVE_MASTER, CLUSTER_GET, None, None, NONE, Raw.BINARY
    GET_TIMER_METRICS = 61, SLAVE_MASTER, CLUSTER_GET, None, None, NONE, b.TimerMetricsSerializeWrapper
    EXCHANGE_BROKER_HA_INFO = 906, BROKER_BROKER, CLUSTER_UPDATE, h.ExchangeHAInfoRequestHeader, h.ExchangeHAInfoResponseHeader
    GET_BROKER_HA_STATUS = 907, ADMIN_BROKER, CLUSTER_GET, None, None, NONE, b.HARuntimeInfo
    RESET_MASTER_FLUSH_OFFSET = 908, ADMIN_BROKER, CLUSTER_UPDATE, h.ResetMasterFlushOffsetHeader
    GET_BROKER_EPOCH_CACHE = 1007, ADMIN_BROKER, CLUSTER_GET, None, None, NONE, b.EpochEntryCache
    # the name server
    REGISTER_BROKER = (103, BROKER_NAMESERVER, CLUSTER_UPDATE,
        h.RegisterBrokerRequestHeader, h.RegisterBrokerResponseHeader, b.RegisterBrokerBody, b.KVTable)
    UNREGISTER_BROKER = 104, BROKER_NAMESERVER, CLUSTER_UPDATE, h.UnRegisterBrokerRequestHeader
    GET_ROUTEINFO_BY_TOPIC = (105, CLIENT_NAMESERVER | ADMIN_NAMESERVER | BROKER_NAMESERVER, ANY_USE,
        h.GetRouteInfoRequestHeader, None, NONE, b.TopicRouteData)
    GET_BROKER_CLUSTER_INFO = 106, ADMIN_NAMESERVER, CLUSTER_GET, None, None, NONE, b.ClusterInfo
    QUERY_DATA_VERSION = (322, BROKER_NAMESERVER, CLUSTER_GET,
        h.QueryDataVersionRequestHeader, h.QueryDataVersionResponseHeader, b.DataVersion, b.DataVersion)
    GET_BROKER_MEMBER_GROUP = (901, BROKER_NAMESERVER, GET,
        h.GetBrokerMemberGroupRequestHeader, None, NONE, b.GetBrokerMemberGroupResponseBody)
    BROKER_HEARTBEAT = 904, BROKER_NAMESERVER | BROKER_CONTROLLER, CLUSTER_UPDATE, h.BrokerHeartbeatRequestHeader
    NOTIFY_MIN_BROKER_ID_CHANGE = 905, NAMESERVER_BROKER, CLUSTER_UPDATE, h.NotifyMinBrokerIdChangeRequestHeader
    WIPE_WRITE_PERM_OF_BROKER = (205, ADMIN_NAMESERVER, CLUSTER_UPDATE,
        h.WipeWritePermOfBrokerRequestHeader, h.WipeWritePermOfBrokerResponseHeader)
    ADD_WRITE_PERM_OF_BROKER = (327, ADMIN_NAMESERVER, CLUSTER_UPDATE,
        h.AddWritePermOfBrokerRequestHeader, h.AddWritePermOfBrokerResponseHeader)
    UPDATE_NAMESRV_CONFIG = 318, ADMIN_NAMESERVER, CLUSTER_UPDATE, None, None, Raw.PROPERTIES_TEXT
    GET_NAMESRV_CONFIG = 319, ADMIN_NAMESERVER, CLUSTER_GET, None, None, NONE, Raw.PROPERTIES_TEXT
    PUT_KV_CONFIG = 100, ADMIN_NAMESERVER, CLUSTER_UPDATE, h.PutKVConfigRequestHeader
    GET_KV_CONFIG = 101, ADMIN_NAMESERVER, CLUSTER_GET, h.GetKVConfigRequestHeader, h.GetKVConfigResponseHeader
    DELETE_KV_CONFIG = 102, ADMIN_NAMESERVER, CLUSTER_UPDATE, h.DeleteKVConfigRequestHeader
    GET_KVLIST_BY_NAMESPACE = 219, ADMIN_NAMESERVER, CLUSTER_GET, h.GetKVListByNamespaceRequestHeader, None, NONE, b.KVTable
    # the controller
    CONTROLLER_ALTER_SYNC_STATE_SET = (1001, BROKER_CONTROLLER, CLUSTER_UPDATE,
        h.AlterSyncStateSetRequestHeader, h.AlterSyncStateSetResponseHeader, b.SyncStateSet, b.SyncStateSet)
    CONTROLLER_ELECT_MASTER = (1002, BROKER_CONTROLLER | ADMIN_CONTROLLER, CLUSTER_UPDATE,
        h.ElectMasterRequestHeader, h.ElectMasterResponseHeader, NONE, b.ElectMasterResponseBody)
    CONTROLLER_REGISTER_BROKER = (1003, BROKER_CONTROLLER, CLUSTER_UPDATE,
        h.RegisterBrokerToControllerRequestHeader, h.RegisterBrokerToControllerResponseHeader, NONE, b.SyncStateSet)
    CONTROLLER_GET_REPLICA_INFO = (1004, BROKER_CONTROLLER, CLUSTER_GET,
        h.GetReplicaInfoRequestHeader, h.GetReplicaInfoResponseHeader, NONE, b.SyncStateSet)
    CONTROLLER_GET_METADATA_INFO = 1005, BROKER_CONTROLLER | ADMIN_CONTROLLER, CLUSTER_GET, None, h.GetMetaDataResponseHeader
    CONTROLLER_GET_SYNC_STATE_DATA = 1006, ADMIN_CONTROLLER, CLUSTER_GET, None, None, list[str], b.BrokerReplicasInfo
    NOTIFY_BROKER_ROLE_CHANGED = (1008, CONTROLLER_BROKER, CLUSTER_UPDATE,
        h.NotifyBrokerRoleChangedRequestHeader, None, b.SyncStateSet)
    UPDATE_CONTROLLER_CONFIG = 1009, ADMIN_CONTROLLER, CLUSTER_UPDATE, None, None, Raw.PROPERTIES_TEXT
    GET_CONTROLLER_CONFIG = 1010, ADMIN_CONTROLLER, CLUSTER_GET, None, None, NONE, Raw.PROPERTIES_TEXT
    CLEAN_BROKER_DATA = 1011, ADMIN_CONTROLLER, CLUSTER_UPDATE, h.CleanControllerBrokerDataRequestHeader
    CONTROLLER_GET_NEXT_BROKER_ID = (1012, BROKER_CONTROLLER, CLUSTER_GET,
        h.GetNextBrokerIdRequestHeader, h.GetNextBrokerIdResponseHeader)
    CONTROLLER_APPLY_BROKER_ID = (1013, BROKER_CONTROLLER, CLUSTER_UPDATE,
        h.ApplyBrokerIdRequestHeader, h.ApplyBrokerIdResponseHeader)
    # users and access control lists
    AUTH_CREATE_USER = 3001, ADMIN_BROKER, CLUSTER_UPDATE, h.CreateUserRequestHeader, None, b.UserInfo
    AUTH_UPDATE_USER = 3002, ADMIN_BROKER, CLUSTER_UPDATE, h.UpdateUserRequestHeader, None, b.UserInfo
    AUTH_DELETE_USER = 3003, ADMIN_BROKER, CLUSTER_UPDATE, h.DeleteUserRequestHeader
    AUTH_GET_USER = 3004, ADMIN_BROKER, CLUSTER_GET, h.GetUserRequestHeader, None, NONE, b.UserInfo
    AUTH_LIST_USER = 3005, ADMIN_BROKER, CLUSTER_GET, h.ListUsersRequestHeader, None, NONE, list[b.UserInfo]
    AUTH_CREATE_ACL = 3006, ADMIN_BROKER, CLUSTER_UPDATE, h.CreateAclRequestHeader, None, b.AclInfo
    AUTH_UPDATE_ACL = 3007, ADMIN_BROKER, CLUSTER_UPDATE, h.UpdateAclRequestHeader, None, b.AclInfo
    AUTH_DELETE_ACL = 3008, ADMIN_BROKER, CLUSTER_UPDATE, h.DeleteAclRequestHeader
    AUTH_GET_ACL = 3009, ADMIN_BROKER, CLUSTER_GET, h.GetAclRequestHeader, None, NONE, b.AclInfo
    AUTH_LIST_ACL = 3010, ADMIN_BROKER, CLUSTER_GET, h.ListAclsRequestHeader, None, NONE, list[b.AclInfo]
    # only 4.x: access control and filter servers
    UPDATE_AND_CREATE_ACL_CONFIG = 50, ADMIN_BROKER, CLUSTER_UPDATE, h.CreateAccessConfigRequestHeader
    DELETE_ACL_CONFIG = 51, ADMIN_BROKER, CLUSTER_UPDATE, h.DeleteAccessConfigRequestHeader
    GET_BROKER_CLUSTER_ACL_INFO = 52, ADMIN_BROKER, CLUSTER_GET, None, h.GetBrokerAclConfigResponseHeader
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53, ADMIN_BROKER, CLUSTER_UPDATE, h.UpdateGlobalWhiteAddrsConfigRequestHeader
    REGISTER_FILTER_SERVER = (301, FILTER_SERVER_BROKER, CLUSTER_UPDATE,
        h.RegisterFilterServerRequestHeader, h.RegisterFilterServerResponseHeader)
    REGISTER_MESSAGE_FILTER_CLASS = (302, CLIENT_FILTER_SERVER, CLUSTER_UPDATE,
        h.RegisterMessageFilterClassRequestHeader, None, Raw.TEXT)
    # DLedger 0.3.2, on a port of its own; a PUSH between our nodes can be binary, see `ledger_push`
    DLEDGER_METADATA = 50000, ADMIN_BROKER, CLUSTER_GET, None, None, d.MetadataRequest, d.MetadataResponse
    DLEDGER_APPEND = 50001, ADMIN_BROKER, CLUSTER_UPDATE, None, None, d.AppendEntryRequest, d.AppendEntryResponse
    DLEDGER_GET = 50002, ADMIN_BROKER, CLUSTER_GET, None, None, d.GetEntriesRequest, d.GetEntriesResponse
    DLEDGER_VOTE = 51001, BROKER_BROKER, CLUSTER_UPDATE, None, None, d.VoteRequest, d.VoteResponse
    DLEDGER_HEART_BEAT = 51002, BROKER_BROKER, CLUSTER_UPDATE, None, None, d.HeartBeatRequest, d.HeartBeatResponse
    DLEDGER_PUSH = 51004, BROKER_BROKER, CLUSTER_UPDATE, None, None, d.PushEntryRequest, d.PushEntryResponse
    DLEDGER_LEADERSHIP_TRANSFER = (51005, BROKER_BROKER | ADMIN_BROKER, CLUSTER_UPDATE,
        None, None, d.LeadershipTransferRequest, d.LeadershipTransferResponse)
    # fmt: on


REQUESTS: Final[Mapping[int, RequestSpec]] = MappingProxyType({int(code): code.request for code in RequestCode})
