"""Observes the stages of a broker, whether it exports metrics or not: the runtime information (28) has their times.

.install(…)                         observe appends, flushes, turns of the event loop, parked answers
.on_appended(), .on_visible()       how long copies take, while `needs_copies`
"""

from __future__ import annotations

from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.metrics.stages import StageTimes
from skyrocket.net.server import Server
from skyrocket.store.horizon import MAJORITY, REPLICAS
from skyrocket.store.message_store import MessageStore

APPENDS_PER_LOOK: Final = 8  # the copies of one append in so many are watched


class StageWatch:
    def __init__(self, store: MessageStore, *, is_group: bool) -> None:
        """`is_group`: the copies are those of a DLedger group, not of a master's slaves."""
        self.times = StageTimes()
        self._store = store
        self._copies = MAJORITY if is_group else REPLICAS
        self._appends = 0

    def install(self, context: BrokerContext, server: Server) -> None:
        server.observe_turns(self.times)
        self.times.watch_appends(self._store.log, context.answers)
        context.flusher.on_flushed = self.times.record_flush
        context.answers.on_released = self.times.record_parked
        context.runtime_figures.append(self.times.figures)

    @property
    def needs_copies(self) -> bool:
        """Whether a message needs copies before it is confirmed."""
        return self._store.horizon.requires(self._copies)

    def on_appended(self) -> None:
        self._appends += 1
        if self._appends % APPENDS_PER_LOOK == 1:
            self.times.watch_append(self._store.horizon.appended)

    def on_visible(self) -> None:
        self.times.record_copied(self._store.horizon.reached(self._copies))
