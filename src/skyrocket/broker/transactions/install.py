"""Install transactions: half messages, the requests that end transactions, and the checks of half messages without an end."""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.transactions.checker import TransactionChecker
from skyrocket.broker.transactions.contributor import TransactionContributor
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.end_rules import EndRules


def install(context: BrokerContext) -> TransactionChecker:
    """Install before the delays: of a message that both may redirect, the transaction's redirect comes first."""
    checker = TransactionChecker(context)
    wake = lambda: context.scheduler.wake(checker.check)  # noqa: E731
    rules = EndRules(checker, context.settings, context.store_host, wake)
    ends = EndTransactionHandler(context.store, context.internal_writer, rules, context.wall_ms, context.answers)
    ends.register(context.router)
    context.contributors.add(TransactionContributor(context.settings, ends))
    context.scheduler.add(checker.check)
    return checker
