"""Install the pull path: the fast path, the general path with long polling, and the watch over slow consumers."""

from __future__ import annotations

from functools import partial

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.load.slow_consumers import SlowConsumerWatch, stop_group
from skyrocket.broker.pull.checks import PullChecks
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.broker.pull.fast_path import PullFastPath
from skyrocket.broker.pull.handler import PullHandler
from skyrocket.broker.pull.read_split import ReadSplit


def install(context: BrokerContext) -> PullHandler:
    """Register the requests that pull messages.

    The caller tells the handler that is returned about new messages, closed connections and the time: pulls wait there.
    """
    checks = PullChecks(context)
    cold_pulls = ColdPulls(context.store.reads)
    read_split = ReadSplit(context.settings)
    handler = PullHandler(context, checks, cold_pulls, read_split)
    handler.register(context.router)
    PullFastPath(context, checks, cold_pulls, handler, read_split).register(context.router)
    watch = SlowConsumerWatch(context.slow_consumers, context.settings, partial(stop_group, context.groups))
    context.scheduler.add(watch.check)
    return handler
