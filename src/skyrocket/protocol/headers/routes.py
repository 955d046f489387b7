"""Routes: the question that every client begins with."""

from __future__ import annotations

from skyrocket.protocol.header import TopicHeader
from skyrocket.protocol.permissions import TopicName


class GetRouteInfoRequestHeader(TopicHeader, kw_only=True):
    """105: which brokers have a topic."""

    topic: TopicName
    accept_standard_json_only: bool | None = None
