"""What a user of the client may have to handle. Each error is one sentence; what else there is to know is in its attributes."""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.protocol.responses import response_name


class ClientError(Exception):
    """The root of every error that the client raises on purpose."""


class InvalidMessageError(ClientError, ValueError):
    """A message, or a name in it, that no broker would take. Nothing was sent."""


class ConfigurationError(ClientError, ValueError):
    """An option that cannot be meant: no nameserver, a wrong address, a name that is not allowed."""


class ClientClosedError(ClientError):
    """It was closed, or never started."""


class NoNameserverError(ClientError):
    """No nameserver answered, and nothing is known from before."""


class NoRouteError(ClientError):
    """The nameservers know no broker that has this topic, or none that takes messages for it."""

    def __init__(self, sentence: str, topic: str) -> None:
        super().__init__(sentence)
        self.topic = topic


class NotFoundError(ClientError):
    """An administrator asked for a broker, group or message that is not there."""


class BrokerError(ClientError):
    """A broker (or nameserver) answered, and the answer is no."""

    def __init__(self, code: int, remark: str, address: str) -> None:
        super().__init__(f"{address} answered {response_name(code)} ({code}): {remark or 'it gives no reason'}")
        self.code = code
        self.remark = remark
        self.address = address


class UnreachableError(ClientError):
    """No connection could be made: the request was not sent."""


class DisconnectedError(ClientError):
    """The connection ended before the answer came. Whether the request was carried out is unknown."""


class TimedOutError(ClientError, TimeoutError):
    """The time given is over. Whether the request was carried out is unknown, unless the sentence says otherwise."""


class OverloadedError(ClientError):
    """Too much is under way already; this was not sent."""


class Attempt(NamedTuple):
    """One try to send, and how it ended."""

    broker: str
    address: str
    error: ClientError

    @property
    def outcome_is_unknown(self) -> bool:
        """Whether the message may be stored nevertheless."""
        return isinstance(self.error, DisconnectedError | TimedOutError)


class SendFailedError(ClientError):
    """A message could not be sent, whatever was tried. `attempts` tells what, in order."""

    def __init__(self, topic: str, attempts: list[Attempt]) -> None:
        tried = "; ".join(dict.fromkeys(f"{attempt.broker}: {attempt.error}" for attempt in attempts))  # each reason once
        super().__init__(f"A message to topic '{topic}' was not acknowledged after {len(attempts)} attempts. {tried}")
        self.topic = topic
        self.attempts = attempts

    @property
    def outcome_is_unknown(self) -> bool:
        """True: a broker may have stored it, only its answer did not come. False: no broker has it."""
        return any(attempt.outcome_is_unknown for attempt in self.attempts)


class SendTimedOutError(SendFailedError, TimedOutError):
    """The same, because the time for the whole send was over."""


class RequestTimedOutError(TimedOutError):
    """A request (request–reply) was sent, and no reply came in time."""


class ReplyError(ClientError):
    """A message that cannot be replied to, or whose sender is no longer there to be told."""
