"""Clients that are connected to a broker."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64
from skyrocket.protocol.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData


class LanguageCode(StrEnum):
    """A client's language by name; `skyrocket.protocol.language` has the numbers of the binary header."""

    JAVA = "JAVA"
    CPP = "CPP"
    DOTNET = "DOTNET"
    PYTHON = "PYTHON"
    DELPHI = "DELPHI"
    ERLANG = "ERLANG"
    RUBY = "RUBY"
    OTHER = "OTHER"
    HTTP = "HTTP"
    GO = "GO"
    PHP = "PHP"
    OMS = "OMS"
    RUST = "RUST"
    NODE_JS = "NODE_JS"

    @classmethod
    def _missing_(cls, value: object) -> LanguageCode | None:
        """Map an unknown language to OTHER. Languages are only displayed; nothing depends on them."""
        return cls.OTHER if isinstance(value, str) else None


class Connection(Body):
    client_id: str = ""
    client_addr: str | None = None
    language: LanguageCode | None = None
    version: Int32 = 0


class ConsumerConnection(Body):
    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body):
    connection_set: list[Connection] = field(default_factory=list)


class ProducerInfo(Body):
    client_id: str = ""
    remote_ip: str | None = field(name="remoteIP", default=None)
    language: LanguageCode | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTableInfo(Body):
    data: dict[str, list[ProducerInfo]] | None = None


class GetConsumerListByGroupResponseBody(Body):
    consumer_id_list: list[str] | None = None


class GroupList(Body):
    group_list: list[str] = field(default_factory=list)


class QuerySubscriptionResponseBody(Body):
    subscription_data: SubscriptionData | None = None
    group: str = ""
    topic: str = ""
