"""What a session sends by itself."""

from __future__ import annotations

from skyrocket.client.producer.producer import Producer
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode


async def test_a_proxy_gets_a_heartbeat_as_soon_as_a_route_says_that_it_is_a_broker_too():
    """The connection is open already, because the route came over it. Without a heartbeat, brokers would not know the client."""
    seen: list[int] = []
    router = Router()
    server = Server(router)
    address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    names = ("broker-a", "broker-b")
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in names],
        broker_datas=[BrokerData(cluster="c", broker_name=name, broker_addrs={0: address}) for name in names],
    )

    def answer(command: Command, _: Connection) -> Command:
        seen.append(command.code)
        return command.response(0, body=encode(route) if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC else b"")

    for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
        router.add(code, answer)
    async with Producer(address) as producer:
        for topic in ("one", "two"):
            await producer.queues(topic)
        await producer._session.send_heartbeats()
    await server.close()
    assert seen == [
        *(RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT),
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        *(RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT),
    ], "two brokers at one address get one heartbeat"
