"""The last heartbeat of a client: it is repeated to a broker that does not know the client yet. Pure.

client ── heartbeat ──▶ kept ── a link to a broker opens ──▶ sent as the first request, one way
       ── farewell ───▶ forgotten: a broker that hears it now would take the client for a member that has left
"""

from __future__ import annotations

from skyrocket.protocol.bodies import HeartbeatData
from skyrocket.protocol.command import ONEWAY_FLAG, Command, decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode_request
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import RequestCode
from skyrocket.proxy.limits import ProxyLimits


class KeptHeartbeats:
    """What the kept heartbeats of all clients take in the proxy's memory."""

    def __init__(self) -> None:
        self.size_bytes = 0


class LastHeartbeat:
    """The last heartbeat of a client. If there is no room for it, the brokers hear of the client when the next one is due."""

    def __init__(self, limits: ProxyLimits, of_all: KeptHeartbeats) -> None:
        self._limits = limits
        self._of_all = of_all
        self._kept: Command | None = None  # the last one with subscriptions
        self._kept_bytes = 0
        self._answered: tuple[dict[str, str], bytes, int, Frame] | None = None  # fields, body, until when, and the answer
        self._answered_bytes = 0

    def note(self, request: Command) -> None:
        """Take note of a request of the client, whatever it is."""
        if request.code == RequestCode.UNREGISTER_CLIENT:
            self.forget()
        elif request.code == RequestCode.HEART_BEAT and _size_of(request, request.body) <= self._limits.heartbeat_bytes_max:
            try:
                has_subscriptions = not decode_request(request.body, HeartbeatData).without_sub
            except ProtocolError:
                return  # the brokers say what is wrong with it
            if has_subscriptions:
                self._keep(request)

    def forget(self) -> None:
        self._forget_kept()
        self._forget_answered()

    def _keep(self, request: Command) -> None:
        self._forget_kept()
        size_bytes = _size_of(request, request.body) + self._limits.heartbeat_overhead_bytes
        if self._has_room(size_bytes):
            self._kept = Command(request.code, flag=ONEWAY_FLAG, fields=request.fields, body=request.body)
            self._kept.language, self._kept.version = request.language, request.version
            self._kept.serialization = request.serialization
            self._kept_bytes = size_bytes
            self._of_all.size_bytes += size_bytes

    def _has_room(self, size_bytes: int) -> bool:
        return self._of_all.size_bytes + size_bytes <= self._limits.heartbeats_all_max_bytes

    def _forget_kept(self) -> None:
        self._of_all.size_bytes -= self._kept_bytes
        self._kept, self._kept_bytes = None, 0

    def _forget_answered(self) -> None:
        self._of_all.size_bytes -= self._answered_bytes
        self._answered, self._answered_bytes = None, 0

    def repeat(self, opaque: int) -> Command | None:
        """Return the heartbeat for another broker, under this number. The signature stays valid: it covers fields and body."""
        if self._kept is not None:
            self._kept.opaque = opaque
        return self._kept

    def record_answer(self, request: Command, body: bytes, answer: Frame, now_ms: int) -> None:
        """Take note that every broker has answered a heartbeat with this body; not if the client has said farewell meanwhile."""
        if request.code != RequestCode.HEART_BEAT or self._kept is None:
            return
        size_bytes = _size_of(request, body)
        if size_bytes > self._limits.heartbeat_bytes_max:
            return
        self._forget_answered()
        size_bytes += len(answer.header) + len(answer.body) + self._limits.heartbeat_overhead_bytes
        if self._has_room(size_bytes):
            self._answered = (request.fields, body, now_ms + self._limits.same_heartbeat_ms, answer)
            self._answered_bytes = size_bytes
            self._of_all.size_bytes += size_bytes

    def answer(self, request: Command, now_ms: int) -> Command | None:
        """Return the answer to a heartbeat that every broker had a moment ago: clients send one for each broker that they see."""
        if request.code != RequestCode.HEART_BEAT or self._answered is None:
            return None
        fields, body, until_ms, frame = self._answered
        if now_ms >= until_ms:
            self._forget_answered()
            return None
        if fields != request.fields or body != request.body:
            return None
        response = decode_command(frame)
        response.opaque = request.opaque
        return response


def _size_of(request: Command, body: bytes) -> int:
    return len(body) + sum(len(name) + len(value) for name, value in request.fields.items())
