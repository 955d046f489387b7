"""Requests for routes, clusters and topic lists, and the two administrator requests that change a topic's route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.nameserver.broker_requests import ZONE_FIELD
from skyrocket.nameserver.kv_requests import KvStore
from skyrocket.nameserver.kv_table import ORDER_NAMESPACE
from skyrocket.nameserver.route_table import RouteTable, in_zone
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import TopicList, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode_request, encode, route_dialect
from skyrocket.protocol.headers import (
    DeleteTopicFromNamesrvRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    RegisterTopicRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

_ZONE_MODE_FIELD: Final = "__ZONE_MODE"


class RouteRequests:
    def __init__(
        self, table: RouteTable, kv: KvStore, settings: Callable[[], NameserverSettings], now_ms: Callable[[], int]
    ) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings
        self._now_ms = now_ms
        self._started_ms = now_ms()

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.route)
        router.add(RequestCode.GET_BROKER_CLUSTER_INFO, self.cluster_info)
        router.add(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self.all_topics)
        router.add(RequestCode.GET_TOPICS_BY_CLUSTER, self.topics_of_cluster)
        router.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.system_topics)
        topics = self._table.topics
        router.add(RequestCode.GET_UNIT_TOPIC_LIST, self._list(topics.of_units))
        router.add(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self._list(topics.with_unit_subscription))
        router.add(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, self._list(topics.with_unit_subscription_only))
        router.add(RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete_topic)
        router.add(RequestCode.REGISTER_TOPIC_IN_NAMESRV, self.register_topic)

    def route(self, request: Command, _: Connection) -> Command:
        header = request.header(GetRouteInfoRequestHeader)
        settings = self._settings()
        if settings.need_wait and self._now_ms() - self._started_ms < settings.wait_s * 1000:
            remark = f"The nameserver gives no routes in its first {settings.wait_s} s (waitSecondsForService)."
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        route = self._table.route(header.topic, acting_masters=settings.support_acting_master)
        if route is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"No broker has topic {header.topic[:255]}.")
        if settings.order_message_enable:
            route.order_topic_conf = self._kv.table.get(ORDER_NAMESPACE, header.topic)
        zone = request.fields.get(ZONE_FIELD, "").strip()
        if zone and request.fields.get(_ZONE_MODE_FIELD, "").lower() == "true":
            route = in_zone(route, zone)
        dialect = route_dialect(request.version, header.accept_standard_json_only)
        return request.response(ResponseCode.SUCCESS, body=encode(route, dialect))

    def cluster_info(self, request: Command, _: Connection) -> Command:
        return request.response(ResponseCode.SUCCESS, body=encode(self._table.cluster_info()))

    # --- lists of topics

    def all_topics(self, request: Command, _: Connection) -> Command:
        if not self._settings().enable_all_topic_list:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "The list of all topics is disabled (enableAllTopicList=false).")
        return _topic_list(request, self._table.topics.all())

    def topics_of_cluster(self, request: Command, _: Connection) -> Command:
        self._check_lists()
        return _topic_list(request, self._table.topics_of_cluster(request.header(GetTopicsByClusterRequestHeader).cluster))

    def system_topics(self, request: Command, _: Connection) -> Command:
        return _topic_list(request, *self._table.system_topics())

    def _list(self, topics: Callable[[], list[str]]) -> Callable[[Command, Connection], Command]:
        def handle(request: Command, _: Connection) -> Command:
            self._check_lists()
            return _topic_list(request, topics())

        return handle

    def _check_lists(self) -> None:
        if not self._settings().enable_topic_list:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "Topic lists are disabled (enableTopicList=false).")

    # --- changes by an administrator

    def delete_topic(self, request: Command, _: Connection) -> Command:
        header = request.header(DeleteTopicFromNamesrvRequestHeader)
        self._table.delete_topic(header.topic, header.cluster_name or None)
        return request.response(ResponseCode.SUCCESS)

    def register_topic(self, request: Command, _: Connection) -> Command:
        header = request.header(RegisterTopicRequestHeader)
        if request.body:
            self._table.register_topic(header.topic, decode_request(request.body, TopicRouteData).queue_datas)
        return request.response(ResponseCode.SUCCESS)


def _topic_list(request: Command, topics: list[str], broker_address: str | None = None) -> Command:
    return request.response(ResponseCode.SUCCESS, body=encode(TopicList(topic_list=topics, broker_addr=broker_address)))
