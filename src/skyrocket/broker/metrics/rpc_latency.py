"""How long requests took, from their read event until their answer, by request and response: RocketMQ 5's `rocketmq_rpc_latency`.

    a turn of a fast path        all of its requests together, by the clock readings that the server takes anyway
    other requests               one by one, when the answer is sent
    answers that wait            when the horizon has passed them: the server counts them with the turn, and they wait here

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
TIMES_MAX: Final = 1_024  # different times of turns, before they are sorted into histograms
_PULLS: Final = frozenset({int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)})
_RESPONSES: Final = {int(each): each.name.lower() for each in ResponseCode}
_UNKNOWN: Final = -1


class _Kind(NamedTuple):
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
        self._times: dict[_Kind, Histogram] = {}
        self._of_turns: dict[tuple[int, int], int] = {}  # how many requests of a code took so many milliseconds
        self._awaited: deque[_AwaitedTurn] = deque()

    # --- told by server, router and pulls

    def record_turn_path(self, code: int, count: int, took_ms: int) -> None:
        """Record requests that a fast path has handled in a turn. That of pulls tells of its own (`record_answered`).

        Answers leave as soon as what was appended for them is confirmed. This is called in every turn, and calls nothing in most.
        """
        if code in _PULLS:
            return
        horizon = self._horizon
        if horizon.confirmed < horizon.appended and len(self._awaited) < AWAITED_MAX:
            self._awaited.append(_AwaitedTurn(horizon.appended, code, count, self._now_ms() - took_ms))
            return
        try:
            self._of_turns[code, took_ms] += count
        except KeyError:
            self.record_answered(code, count, took_ms)

    def record_group(self, code: int, count: int, arrived_ms: int) -> None:
        """Record requests of one read event, as `record_turn_path` does."""
        self.record_turn_path(int(code), count, self._now_ms() - arrived_ms)

    def record_answered(self, code: int, count: int, took_ms: int) -> None:
        """Record successes of a turn."""
        times, key = self._of_turns, (int(code), took_ms)  # numbers: the hash of an enum's member takes a call
        times[key] = times.get(key, 0) + count
        if len(times) > TIMES_MAX:
            self._sort_turns()

    def record_response(
        self, code: int, response: int, arrived_ms: int, *, is_long_polling: bool = False, is_oneway: bool = False
    ) -> None:
        """Record the answer to one request."""
        kind = _Kind(code if code in REQUESTS else _UNKNOWN, response, is_long_polling, is_oneway)
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
                self._histogram(_Kind(turn.request, response)).observe(self._now_ms() - turn.arrived_ms, taken)
                return

    # --- collected

    def collect(self) -> Iterable[Measured]:
        self._sort_turns()
        yield Measured(RPC_LATENCY, [(_labels(kind), times.state()) for kind, times in self._times.items()])

    def _sort_turns(self) -> None:
        for (code, took_ms), count in self._of_turns.items():
            if count:
                self._histogram(_Kind(code, ResponseCode.SUCCESS)).observe(took_ms, count)
        self._of_turns.clear()

    def _histogram(self, kind: _Kind) -> Histogram:
        found = self._times.get(kind)
        if found is None:
            found = self._times[kind] = Histogram(BOUNDS_MS)
        return found


def _labels(kind: _Kind) -> tuple[str, ...]:
    request = REQUESTS[kind.request].name.lower() if kind.request in REQUESTS else OTHER
    response = _RESPONSES.get(kind.response, OTHER)
    return "remoting", request, response, "true" if kind.is_long_polling else "false", "oneway" if kind.is_oneway else "success"
