"""How long requests took, from their read event until their answer, by request and response: RocketMQ 5's `rocketmq_rpc_latency`.

    a turn of a fast path        all of its requests together, by the clock readings that the server takes anyway. Where
                                 nothing has to be confirmed, the server counts them by code and milliseconds in one table, and
                                 calls nobody: in a turn of one request, a call into cold memory costs 2 %
    other requests               one by one, when the answer is sent
    answers that wait            when the horizon has passed them; until then their turns are kept here

Milliseconds, as Apache's. Sends of one turn count as the kind of request that its first frame is. Requests that this broker does
not know count as one kind, whatever their number: strangers choose it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from skyrocket.metrics.family import Measured, histogram
from skyrocket.metrics.histogram import Histogram
from skyrocket.metrics.series_limit import OTHER
from skyrocket.net.server import SERVED_MS_BITS, ServedTurns
from skyrocket.protocol.requests import REQUESTS, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.horizon import Horizon

RPC_LATENCY: Final = histogram(
    "rocketmq_rpc_latency_milliseconds",
    "Time from the read of a request until its answer.",
    "protocol_type",
    "request_code",
    "response_code",
    "is_long_polling",
    "result",
)
BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
AWAITED_MAX: Final = 10_000  # turns whose answers wait; further ones count at once
TIMES_MAX: Final = 256  # different times of turns, before they are sorted into histograms
_PULLS: Final = frozenset({int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)})
_RESPONSES: Final = {int(each): each.name.lower() for each in ResponseCode}
_UNKNOWN: Final = -1


class _RequestKind(NamedTuple):
    """The labels of one histogram."""

    request: int
    response: int
    is_long_polling: bool = False
    is_oneway: bool = False


class _AwaitedTurn(NamedTuple):
    """Requests whose answers wait until everything before a position of the log is confirmed."""

    position: int
    request: int
    requests: int
    arrived_ms: int


class RpcLatency:
    def __init__(self, horizon: Horizon, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the clock of the server's connections."""
        self._horizon = horizon
        self._now_ms = now_ms
        self._times: dict[_RequestKind, Histogram] = {}
        self.turns: ServedTurns = {}  # the server adds them
        self._awaited: deque[_AwaitedTurn] = deque()

    # --- told by server, router and pulls

    def take_turns(self) -> None:
        """Record the turns that the server has noted since the last call: their answers have left."""
        for kind, count in self.turns.items():
            code, took_ms = kind >> SERVED_MS_BITS, kind & (1 << SERVED_MS_BITS) - 1
            if count and code not in _PULLS:
                self.record_answered(code, count, took_ms)
        self.turns.clear()

    def notes(self) -> ServedTurns | None:
        """Return the table for the server's notes; None while answers wait, and it has to tell of each turn."""
        return self.turns if self._horizon.confirms_at_once else None

    def record_group(self, code: int, count: int, arrived_ms: int) -> None:
        self.record_turn(code, count, self._now_ms() - arrived_ms)

    def record_turn(self, code: int, count: int, took_ms: int) -> None:
        """Record requests whose answers leave as soon as what was appended for them is confirmed.

        The fast path of pulls tells of its own (`record_answered`).
        """
        if code in _PULLS:
            return
        horizon = self._horizon
        if horizon.confirmed < horizon.appended and len(self._awaited) < AWAITED_MAX:
            self._awaited.append(_AwaitedTurn(horizon.appended, code, count, self._now_ms() - took_ms))
        else:
            self.record_answered(code, count, took_ms)

    def record_answered(self, code: int, count: int, took_ms: int) -> None:
        """Record successes of a turn."""
        self._histogram(_RequestKind(code, ResponseCode.SUCCESS)).observe(took_ms, count)

    def record_response(
        self, code: int, response: int, arrived_ms: int, *, is_long_polling: bool = False, is_oneway: bool = False
    ) -> None:
        """Record the answer to one request."""
        kind = _RequestKind(code if code in REQUESTS else _UNKNOWN, response, is_long_polling, is_oneway)
        self._histogram(kind).observe(self._now_ms() - arrived_ms)

    # --- answers that wait

    def record_released(self) -> None:
        """The horizon has moved: answers have left."""
        awaited, confirmed = self._awaited, self._horizon.confirmed
        now_ms = self._now_ms() if awaited else 0
        while awaited and awaited[0].position <= confirmed:
            turn = awaited.popleft()
            self.record_answered(turn.request, turn.requests, now_ms - turn.arrived_ms)

    def record_unconfirmed(self, position: int, response: ResponseCode, count: int) -> None:
        """Record answers that say that a message is stored, and not confirmed in time."""
        for at, turn in enumerate(self._awaited):
            if turn.position >= position:
                taken = min(count, turn.requests)
                self._awaited[at] = turn._replace(requests=turn.requests - taken)
                self._histogram(_RequestKind(turn.request, response)).observe(self._now_ms() - turn.arrived_ms, taken)
                return

    # --- collected

    def collect(self) -> Iterable[Measured]:
        self.take_turns()
        yield Measured(RPC_LATENCY, [(_labels(kind), times.state()) for kind, times in self._times.items()])

    def _histogram(self, kind: _RequestKind) -> Histogram:
        found = self._times.get(kind)
        if found is None:
            found = self._times[kind] = Histogram(BOUNDS_MS)
        return found


def _labels(kind: _RequestKind) -> tuple[str, ...]:
    request = REQUESTS[kind.request].name.lower() if kind.request in REQUESTS else OTHER
    response = _RESPONSES.get(kind.response, OTHER)
    return "remoting", request, response, "true" if kind.is_long_polling else "false", "oneway" if kind.is_oneway else "success"
