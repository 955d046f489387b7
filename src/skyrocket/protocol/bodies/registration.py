"""What a broker tells the nameserver about itself. `skyrocket.protocol.broker_registration` has its packed form."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body
from skyrocket.protocol.bodies.kv import KVTable
from skyrocket.protocol.bodies.topics import TopicConfigAndMappingSerializeWrapper


class RegisterBrokerBody(Body):
    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = field(
        default_factory=TopicConfigAndMappingSerializeWrapper
    )
    filter_server_list: list[str] = field(default_factory=list)


class RegisterBrokerResult(Body):
    ha_server_addr: str | None = None
    master_addr: str | None = None
    kv_table: KVTable | None = None
