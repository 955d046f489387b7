"""The load of the demo: sign-ups with duplicates, late events and poison messages, drawn from a seed. Pure.

The same seed draws the same users, times and faults, so a run can be repeated and its outcome is known beforehand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from skyrocket.pipelines.errors import ArgumentError, PipelineError

APP: Final = "app"
WEB: Final = "web"
APP_SHARE: Final = 0.4
DUPLICATE_SHARE: Final = 0.05  # a second click, or a client that sent again after a timeout
LATE_SHARE: Final = 0.05  # a telephone that was offline: it happened minutes before it arrives
POISON_SHARE: Final = 0.01  # a body that no service can read
DUPLICATE_AFTER_S: Final = (0.05, 2.0)
LATE_MINUTES: Final = (1.0, 2.5)

SECONDS_RANGE: Final = (4.0, 3_600.0)
RATE_RANGE: Final = (1.0, 1_000.0)
MINUTE_RANGE: Final = (1.0, 3_600.0)
SIGN_UPS_MAX: Final = 200_000


class UnreadableSignUpError(PipelineError):
    """A body is not a sign-up."""


@dataclass(frozen=True, slots=True)
class SignUp:
    """One request to register. Times are seconds since the load began."""

    user: str
    channel: str  # app or web; the message's tag
    at_s: float  # when it arrives
    late_s: float = 0.0  # how long before it happened
    is_poison: bool = False
    is_duplicate: bool = False


class SignUpBody(msgspec.Struct):
    """The body of a sign-up's message, and of the message that tells of a service's step."""

    user: str
    at: int  # when it happened, in milliseconds since 1970
    late: bool = False
    step: str = ""  # the service; empty: the sign-up itself


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the user chooses."""

    seconds: float = 60.0  # of load: first in-line, then over the queue
    rate: float = 30.0  # sign-ups a second
    seed: int = 1
    minute_s: float = 10.0  # how long a minute of the funnel takes

    def check(self) -> None:
        """Raise ArgumentError for a value that makes no sense."""
        for option, value, (least, most) in (
            ("--seconds", self.seconds, SECONDS_RANGE),
            ("--rate", self.rate, RATE_RANGE),
            ("--minute", self.minute_s, MINUTE_RANGE),
        ):
            if not least <= value <= most:
                raise ArgumentError(f"{option} is {value:g}. It must be {least:g} to {most:g}.")
        if self.seconds * self.rate > SIGN_UPS_MAX:
            raise ArgumentError(
                f"--seconds {self.seconds:g} at --rate {self.rate:g} is more than {SIGN_UPS_MAX:,} sign-ups. Choose less of one."
            )


def draw_sign_ups(settings: DemoSettings, seconds: float, prefix: str) -> list[SignUp]:
    """Draw the sign-ups of so many seconds, in the order of their arrival. Duplicates come on top of the rate.

    Arrivals are independent of each other, as those of people are: there are moments with many and with none.
    """
    chance = random.Random(f"{settings.seed}:{prefix}")  # noqa: S311 — a repeatable draw, no secret
    times = sorted(chance.uniform(0, seconds) for _ in range(max(1, round(settings.rate * seconds))))
    drawn: list[SignUp] = []
    for number, at_s in enumerate(times):
        first = _draw_one(chance, f"{prefix}-{number:06d}", at_s, settings.minute_s)
        drawn.append(first)
        if not first.is_poison and chance.random() < DUPLICATE_SHARE:
            again_s = min(seconds, at_s + chance.uniform(*DUPLICATE_AFTER_S))
            # The second copy tells of the same moment, so it is as late as it arrives later.
            drawn.append(replace(first, at_s=again_s, late_s=first.late_s + again_s - at_s, is_duplicate=True))
    return sorted(drawn, key=lambda one: (one.at_s, one.is_duplicate))


def _draw_one(chance: random.Random, user: str, at_s: float, minute_s: float) -> SignUp:
    channel = APP if chance.random() < APP_SHARE else WEB
    is_poison = chance.random() < POISON_SHARE
    late_s = chance.uniform(*LATE_MINUTES) * minute_s if chance.random() < LATE_SHARE else 0.0
    if is_poison or late_s > at_s:  # nothing happened before the demo began
        late_s = 0.0
    return SignUp(user, channel, at_s, late_s, is_poison)


def encode_body(sign_up: SignUp, began_ms: int, minute_s: float) -> bytes:
    """Return the body of a sign-up's message. That of a poison message breaks off."""
    at_ms = began_ms + round((sign_up.at_s - sign_up.late_s) * 1000)
    body = msgspec.json.encode(SignUpBody(sign_up.user, at_ms, sign_up.late_s >= minute_s))
    return body[: len(body) // 2] if sign_up.is_poison else body


def parse_body(body: bytes) -> SignUpBody:
    """Parse a body. Raise UnreadableSignUpError if it is not a sign-up."""
    try:
        return msgspec.json.decode(body, type=SignUpBody)
    except msgspec.DecodeError as error:
        raise UnreadableSignUpError(f"The body is not a sign-up: {error}.") from error


def split_users(sign_ups: Sequence[SignUp]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the users who can be registered and those whose message is poison, each with the channel."""
    sound = {one.user: one.channel for one in sign_ups if not one.is_poison}
    poison = {one.user: one.channel for one in sign_ups if one.is_poison}
    return sound, poison
