"""What the router refuses before a handler sees it."""

from __future__ import annotations

from skyrocket.net.connection import Connection
from skyrocket.net.router import Refusal
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import SIGNATURE
from tests.unit.net.scene import Raw, scene

SERVED, NOT_SERVED = 70, 71  # of one group handler


class TakesSignature:
    """Like a broker's guard: what it has admitted goes on without its signature, which it would therefore miss the next time."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.recorded: list[tuple[int, str]] = []

    def refusal(self, command: Command, _connection: Connection) -> Refusal | None:
        self.asked.append(command.opaque)
        if command.fields.pop(SIGNATURE, None) is None:
            return Refusal(ResponseCode.NO_PERMISSION, "check signature failed")
        return None

    def record_refusal(self, command: Command, _connection: Connection, refusal: Refusal) -> None:
        self.recorded.append((command.opaque, refusal.remark))

    def admit(self, frames: list[Frame], _connection: Connection) -> list[Frame]:
        return frames


async def test_a_request_that_its_neighbours_handler_may_not_see_is_asked_for_its_signature_once():
    async with scene() as played:
        guard = TakesSignature()
        played.router.add_group((SERVED, NOT_SERVED), played.group)
        played.router.set_guard(guard)
        refused = Refusal(ResponseCode.SYSTEM_BUSY, "not at a slave")
        played.router.refusal_of = lambda code: refused if code == NOT_SERVED else None
        raw = await Raw.to(played)
        codes = [SERVED, SERVED, NOT_SERVED, SERVED]
        commands = [Command(code, opaque=number, fields={SIGNATURE: "s"}) for number, code in enumerate(codes)]
        raw.writer.write(b"".join(map(encode_command, commands)))
        answers = await raw.receive(4)
        assert [(each.opaque, each.code, each.remark) for each in answers if each.code] == [
            (2, ResponseCode.SYSTEM_BUSY, "not at a slave")
        ]
        assert [each.opaque for each in answers] == [0, 1, 2, 3]
        assert played.groups == [[0, 1], [3]]
        assert guard.asked == [0, 1, 2, 3]
        assert guard.recorded == [(2, "not at a slave")]
