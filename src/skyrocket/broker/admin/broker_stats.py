"""Broker statistics by Apache's names: 315, which `mqadmin statsAll` and `exportMetrics` send.

A statistic is one column of a counter. Its key is a topic, `topic@group`, or the cluster name for the whole broker.
"""

from __future__ import annotations

from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.load.counters import DAY_MS, GET, HOUR_MS, MINUTE_MS, PUT, SEND_BACK, Counter, Rate
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import BrokerStatsData, BrokerStatsItem
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ViewBrokerStatsDataRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

BY_KEY: Final = {  # name -> kind and column
    "TOPIC_PUT_NUMS": (PUT, "messages"),
    "TOPIC_PUT_SIZE": (PUT, "size_bytes"),
    "GROUP_GET_NUMS": (GET, "messages"),
    "GROUP_GET_SIZE": (GET, "size_bytes"),
    "GROUP_GET_LATENCY": (GET, "took_ms"),
    "SNDBCK_PUT_NUMS": (SEND_BACK, "messages"),
}
OF_BROKER: Final = {"BROKER_PUT_NUMS": PUT, "BROKER_GET_NUMS": GET}
OF_USERS_TOPICS: Final = {"BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": PUT, "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": GET}


class BrokerStatsHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._counters = context.counters
        self._topics = context.topics
        self._settings = context.settings
        self._wall_ms = context.wall_ms

    def register(self, router: Router) -> None:
        router.add(RequestCode.VIEW_BROKER_STATS_DATA, self.view)

    def view(self, command: Command, _connection: Connection) -> Command:
        header = command.header(ViewBrokerStatsDataRequestHeader)
        counters, column = self._find_counters(header.stats_name, header.stats_key)
        if not counters:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"There is no statistic {header.stats_name} of '{header.stats_key}'.")
        now_ms = self._wall_ms()
        items = [
            _item([counter.rate(now_ms, over_ms) for counter in counters], column) for over_ms in (MINUTE_MS, HOUR_MS, DAY_MS)
        ]
        return command.response(ResponseCode.SUCCESS, body=encode(BrokerStatsData(*items)))

    def _find_counters(self, name: str, key: str) -> tuple[list[Counter], str]:
        """Return the counters of a statistic, and the column to sum."""
        if name in BY_KEY:
            kind, column = BY_KEY[name]
            counter = self._counters.find(kind, key)
            return ([] if counter is None else [counter]), column
        if key != self._settings().cluster_name:
            return [], ""
        if name in OF_BROKER:
            return [self._counters.put if OF_BROKER[name] == PUT else self._counters.get], "messages"
        kind = OF_USERS_TOPICS.get(name, "")
        found = [counter for of, counter in self._counters.of_kind(kind) if not self._topics.is_system(of.partition("@")[0])]
        return found, "messages"


def _item(rates: list[Rate], column: str) -> BrokerStatsItem:
    total = sum(getattr(rate, column) for rate in rates)
    times = sum(rate.times for rate in rates)
    span_ms = max(rate.span_ms for rate in rates)
    return BrokerStatsItem(sum=total, tps=total * 1000 / span_ms, avgpt=total / times if times else 0.0)
