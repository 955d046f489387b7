"""Administration of DLedger groups: who shall lead. It speaks DLedger's own requests, so it serves Apache's nodes, too.

master ──settings──▶ dLegerPeers, dLegerSelfId ──▶ the leader's own port: 51002 tells its term, 51005 moves the leadership
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.errors import BrokerError, ConfigurationError
from skyrocket.protocol.bodies.dledger import (
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    LedgerCode,
    LedgerMessage,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.requests import RequestCode

TRANSFER_MS: Final = 10_000
NO_TERM: Final = -1  # below every term: a node refuses it and says its own

Answer = TypeVar("Answer", bound=LedgerMessage)


def read_peers(settings: Mapping[str, str], broker: str) -> dict[str, str]:
    """Return the address of each node's own port, by its id. Raise ConfigurationError when the broker is in no group."""
    if settings.get("enableDLegerCommitLog") != "true":
        raise ConfigurationError(f"Broker {broker} is in no DLedger group: enableDLegerCommitLog is not true.")
    nodes = (text.partition("-") for text in settings.get("dLegerPeers", "").split(";") if text)
    return {node: address for node, _, address in nodes}


async def transfer_leadership(brokers: Brokers, settings: Mapping[str, str], broker: str, node: str) -> None:
    """Make a node the leader of its group. `settings` are those of the master. Return when it leads."""
    peers, leader = read_peers(settings, broker), settings.get("dLegerSelfId", "")
    if node not in peers:
        raise ConfigurationError(f"Group of broker {broker} has no node '{node}', but {', '.join(peers)}.")
    if node == leader:
        return
    group, address = settings.get("dLegerGroup") or broker, peers[leader]

    async def ask(code: int, request: LedgerMessage, answer: type[Answer]) -> Answer:
        request.group, request.local_id, request.remote_id = group, node, leader
        response = await brokers.session.request(address, Command(code, body=encode(request)), timeout_ms=TRANSFER_MS)
        try:
            return decode(response.body, answer)
        except BodyError as error:
            raise BrokerError(response.code, f"the answer cannot be decoded: {error}", address) from error

    state = await ask(RequestCode.DLEDGER_HEART_BEAT, HeartBeatRequest(leader_id=node, term=NO_TERM), HeartBeatResponse)
    request = LeadershipTransferRequest(term=state.term, transfer_id=leader, transferee_id=node)
    done = await ask(RequestCode.DLEDGER_LEADERSHIP_TRANSFER, request, LeadershipTransferResponse)
    if done.code != LedgerCode.SUCCESS:
        raise BrokerError(done.code, f"node {node} does not lead: {_name(done.code)}", address)


def _name(code: int) -> str:
    try:
        return LedgerCode(code).name
    except ValueError:
        return f"code {code}"
