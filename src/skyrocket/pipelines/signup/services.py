"""The services behind a sign-up: who gets which sign-ups, how long a step takes, when it fails. Pure.

sms          every user gets a text message
push         users of the app get a notification: the broker filters by tag
coupons      every user gets one coupon; killed with kill -9 in the middle of the demo
red-packets  every user gets a red packet; joins late, and starts from the first message
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from skyrocket.pipelines.signup.sign_ups import APP, SignUpBody, UnreadableSignUpError, parse_body

STEP_MS: Final = (50.0, 150.0)  # how long a step takes, in-line as well as in a service
FAILURE_SHARE: Final = 0.03  # of steps fail at the first attempt, as a call to another company does at times
RETRIES_MAX: Final = 2  # then a message becomes a dead letter
RETRY_LEVEL: Final = 1  # deliver again after a second
CONCURRENCY: Final = 20  # steps at a time, of one service


class DemoService(NamedTuple):
    """One service: a consumer group of its own."""

    name: str
    tags: str  # the subscription
    effect: str  # what a user gets from it
    is_in_line: bool = True  # whether the in-line version has this step
    joins_late: bool = False

    def takes(self, channel: str) -> bool:
        """Return whether the service gets sign-ups of a channel."""
        return self.tags in ("*", channel)

    def expects(self, users: Mapping[str, str]) -> set[str]:
        """Return those of the users whom this service has to serve."""
        return {user for user, channel in users.items() if self.takes(channel)}


SERVICES: Final = (
    DemoService("sms", "*", "text message"),
    DemoService("push", APP, "notification"),
    DemoService("coupons", "*", "coupon"),
    DemoService("red-packets", "*", "red packet", is_in_line=False, joins_late=True),
)
BY_NAME: Final = {service.name: service for service in SERVICES}
STOPPED_SERVICE: Final = "coupons"
LATE_SERVICE: Final = "red-packets"


class StepOutcome(Enum):
    """What a service does with a delivery."""

    SERVE = "serve"
    FAIL = "fail"  # this attempt fails; the broker delivers the message again
    REFUSE = "refuse"  # no attempt can succeed


class ServiceDecision(NamedTuple):
    """What to do with a delivery, and how long the step takes before it is known."""

    outcome: StepOutcome
    step_s: float = 0.0
    body: SignUpBody | None = None  # of a message that can be read
    why: str = ""


def step_seconds(seed: int, service: str, user: str) -> float:
    """Draw how long a step takes: the same for the same user, in-line and in a service."""
    return random.Random(f"{seed}:step:{service}:{user}").uniform(*STEP_MS) / 1000  # noqa: S311 — a repeatable draw


def fails_at_first(seed: int, service: str, user: str) -> bool:
    """Draw whether a step fails at the first attempt."""
    return random.Random(f"{seed}:fail:{service}:{user}").random() < FAILURE_SHARE  # noqa: S311 — a repeatable draw


def decide(seed: int, service: str, body: bytes, reconsume_times: int) -> ServiceDecision:
    """Decide about a delivery."""
    try:
        parsed = parse_body(body)
    except UnreadableSignUpError as error:
        return ServiceDecision(StepOutcome.REFUSE, why=str(error))
    step_s = step_seconds(seed, service, parsed.user)
    if reconsume_times == 0 and fails_at_first(seed, service, parsed.user):
        return ServiceDecision(StepOutcome.FAIL, step_s, parsed, f"The {service} service was not reached.")
    return ServiceDecision(StepOutcome.SERVE, step_s, parsed)
