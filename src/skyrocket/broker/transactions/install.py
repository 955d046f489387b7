"""Install transactions: half messages, the requests that end transactions, and the checks of half messages without an end."""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.transactions.checker import TransactionChecks
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.records import half_detour, half_short_cut
from skyrocket.protocol.message.properties import TRANSACTION_PREPARED


class TransactionParts(NamedTuple):
    checks: TransactionChecks
    ends: EndTransactionHandler


def install(context: BrokerContext) -> TransactionParts:
    """Install before the delays: of a message that both may redirect, the transaction's redirect comes first."""
    checks = TransactionChecks(
        context.store,
        context.internal_writer,
        context.offsets,
        context.topics,
        context.clients,
        context.settings,
        context.store_host,
        context.wall_ms(),
    )
    ends = EndTransactionHandler(
        context.store,
        context.internal_writer,
        checks,
        context.settings,
        context.store_host,
        context.wall_ms,
        wake=lambda: context.scheduler.wake(checks.check),
    )
    ends.register(context.router)
    context.redirects.add([TRANSACTION_PREPARED], half_detour(context.settings), half_short_cut(context.settings))
    context.scheduler.add(checks.check)
    return TransactionParts(checks, ends)
