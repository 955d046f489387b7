"""A proxy's own answers become the errors of connections, for every kind of request."""

from __future__ import annotations

import pytest

from skyrocket.client.errors import BrokerError, DisconnectedError, NoNameserverError, UnreachableError
from skyrocket.client.options import ClientOptions
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import build_receipt
from skyrocket.client.session.proxy_failures import check_proxy
from skyrocket.client.session.session import Session
from skyrocket.net.connection import Connection
from skyrocket.net.errors import ConnectError, ConnectionLostError, NetError
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import CONNECTION_LOST, NOT_SENT, PROXY_FAILURE, ResponseCode

BUSY = ResponseCode.SERVICE_NOT_AVAILABLE


def answer(failure: str, code: int = BUSY) -> Command:
    return Command(code, fields={PROXY_FAILURE: failure} if failure else {}, remark="broker-a is away.")


@pytest.mark.parametrize(("failure", "error"), [(NOT_SENT, ConnectError), (CONNECTION_LOST, ConnectionLostError)])
def test_what_a_proxy_could_not_ask_is_an_error_of_a_connection(failure: str, error: type[NetError]):
    with pytest.raises(error, match=r"The proxy at h:1 got no answer\. broker-a is away\."):
        check_proxy(answer(failure), "h:1")
    with pytest.raises(error):
        build_receipt(answer(failure), "id", Queue("t", "broker-a", 0), "h:1")


@pytest.mark.parametrize("response", [answer(""), answer("something newer"), answer(NOT_SENT, code=0)])
def test_what_a_server_answers_itself_stays_an_answer(response: Command):
    check_proxy(response, "h:1")


async def test_requests_of_every_kind_raise_it_and_a_nameserver_behind_a_proxy_is_away():
    failure = NOT_SENT
    router = Router()

    def refuse(command: Command, _: Connection) -> Command:
        response = command.response(BUSY, remark="it is away.")
        response.fields = {PROXY_FAILURE: failure} if failure else {}
        return response

    for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_ROUTEINFO_BY_TOPIC):
        router.add(code, refuse)
    server = Server(router)
    address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    session = await Session.acquire(ClientOptions(address))
    with pytest.raises(UnreachableError, match="it is away"):
        await session.request(address, Command(RequestCode.GET_MAX_OFFSET))
    with pytest.raises(NoNameserverError, match="it is away"):
        await session.fetch_route("t")
    failure = CONNECTION_LOST
    with pytest.raises(DisconnectedError, match="it is away"):
        await session.request(address, Command(RequestCode.GET_MAX_OFFSET))
    failure = ""
    with pytest.raises(BrokerError):
        await session.request_ok(address, RequestCode.GET_MAX_OFFSET)
    await session.release()
    await server.close()
