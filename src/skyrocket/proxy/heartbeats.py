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


class LastHeartbeat:
    def __init__(self, limits: ProxyLimits) -> None:
        self._limits = limits
        self._kept: Command | None = None  # the last one with subscriptions
        self._answered: tuple[dict[str, str], bytes, int, Frame] | None = None  # fields, body, until when, and the answer

    def note(self, request: Command) -> None:
        """Take note of a request of the client, whatever it is."""
        if request.code == RequestCode.UNREGISTER_CLIENT:
            self._kept = self._answered = None
        elif request.code == RequestCode.HEART_BEAT and len(request.body) <= self._limits.heartbeat_bytes_max:
            try:
                has_subscriptions = not decode_request(request.body, HeartbeatData).without_sub
            except ProtocolError:
                return  # the brokers say what is wrong with it
            if has_subscriptions:
                self._kept = Command(request.code, flag=ONEWAY_FLAG, fields=request.fields, body=request.body)
                self._kept.language, self._kept.version = request.language, request.version
                self._kept.serialization = request.serialization

    def repeat(self, opaque: int) -> Command | None:
        """Return the heartbeat for another broker, under this number. The signature stays valid: it covers fields and body."""
        if self._kept is not None:
            self._kept.opaque = opaque
        return self._kept

    def record_answer(self, request: Command, body: bytes, answer: Frame, now_ms: int) -> None:
        """Take note that every broker has answered a heartbeat with this body; not if the client has said farewell meanwhile."""
        if request.code == RequestCode.HEART_BEAT and self._kept is not None and len(body) <= self._limits.heartbeat_bytes_max:
            self._answered = (request.fields, body, now_ms + self._limits.same_heartbeat_ms, answer)

    def answer(self, request: Command, now_ms: int) -> Command | None:
        """Return the answer to a heartbeat that every broker had a moment ago: clients send one for each broker that they see."""
        if request.code != RequestCode.HEART_BEAT or self._answered is None:
            return None
        fields, body, until_ms, frame = self._answered
        if now_ms >= until_ms:
            self._answered = None
            return None
        if fields != request.fields or body != request.body:
            return None
        response = decode_command(frame)
        response.opaque = request.opaque
        return response
