"""The errors that the client raises. Each message is a sentence or two; details are in the attributes."""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.protocol.responses import response_name


class ClientError(Exception):
    """The base class of every error that the client raises on purpose."""


class InvalidMessageError(ClientError, ValueError):
    """A message, or a name in it, that no broker accepts. Nothing was sent."""


class ConfigurationError(ClientError, ValueError):
    """An invalid option: no nameserver, a malformed address, a name that is not allowed."""


class ClientClosedError(ClientError):
    """The client is closed or was not started."""


class NoNameserverError(ClientError):
    """No nameserver answered, and the client has no route from before."""


class NoRouteError(ClientError):
    """No broker has this topic, or none accepts messages for it."""

    def __init__(self, sentence: str, topic: str) -> None:
        super().__init__(sentence)
        self.topic = topic


class NotFoundError(ClientError):
    """A broker, group or message that `Admin` looked up does not exist."""


class BrokerError(ClientError):
    """A broker or nameserver refused the request. `code` and `remark` are those of its response."""

    def __init__(self, code: int, remark: str, address: str) -> None:
        super().__init__(f"{address} answered {response_name(code)} ({code}): {remark or 'no reason given'}")
        self.code = code
        self.remark = remark
        self.address = address


class UnreachableError(ClientError):
    """No connection could be opened. The request was not sent."""


class DisconnectedError(ClientError):
    """The connection closed before the response arrived. Whether the broker carried out the request is unknown."""


class TimedOutError(ClientError, TimeoutError):
    """The timeout passed. Whether the broker carried out the request is unknown, unless the message says otherwise."""


class OverloadedError(ClientError):
    """A bound of `ClientLimits` is reached. Nothing was sent."""


class Attempt(NamedTuple):
    """One attempt to send a message, and its error."""

    broker: str
    address: str
    error: ClientError

    @property
    def outcome_is_unknown(self) -> bool:
        """Whether the broker may have stored the message although no acknowledgement arrived."""
        return isinstance(self.error, DisconnectedError | TimedOutError)


class SendFailedError(ClientError):
    """A message was not acknowledged. `attempts` lists the broker, address and error of each attempt, in order."""

    def __init__(self, topic: str, attempts: list[Attempt]) -> None:
        reasons = "; ".join(dict.fromkeys(f"{attempt.broker}: {attempt.error}" for attempt in attempts))  # each reason once
        super().__init__(f"The message to topic '{topic}' was not acknowledged after {len(attempts)} attempts. {reasons}")
        self.topic = topic
        self.attempts = attempts

    @property
    def outcome_is_unknown(self) -> bool:
        """True: a broker may have stored the message, and only its response was lost. False: no broker has it."""
        return any(attempt.outcome_is_unknown for attempt in self.attempts)


class SendTimedOutError(SendFailedError, TimedOutError):
    """A message was not acknowledged before the timeout of the whole send."""


class RequestTimedOutError(TimedOutError):
    """A request (request–reply) was sent, and no reply arrived in time."""


class ReplyError(ClientError):
    """The message is not a request, so nothing can reply to it."""
