from __future__ import annotations

import pytest

from skyrocket.client.errors import BrokerError, ClientError, DisconnectedError, TimedOutError, UnreachableError
from skyrocket.client.producer.retry_policy import Retries
from skyrocket.protocol.responses import ResponseCode

BUSY = BrokerError(ResponseCode.SYSTEM_BUSY, "busy", "a:1")
FAULT = BrokerError(ResponseCode.SYSTEM_ERROR, "fault", "a:1")
REFUSED = BrokerError(ResponseCode.NO_PERMISSION, "not yours", "a:1")
ILLEGAL = BrokerError(ResponseCode.MESSAGE_ILLEGAL, "too large", "a:1")


@pytest.mark.parametrize("error", [DisconnectedError("x"), TimedOutError("x"), UnreachableError("x"), BUSY, FAULT])
def test_another_broker_is_tried_at_once_twice(error: ClientError):
    retries = Retries(2)
    assert [retries.pause_ms(error, is_alone=False) for _ in range(3)] == [0, 0, None]


@pytest.mark.parametrize("is_alone", [True, False])
def test_what_would_be_the_same_everywhere_is_not_tried_again(is_alone: bool):
    assert Retries(2).pause_ms(ILLEGAL, is_alone=is_alone) is None


@pytest.mark.parametrize("error", [UnreachableError("x"), BUSY])
def test_where_nothing_was_stored_the_only_broker_is_tried_as_long_as_there_is_time_less_and_less_often(error: ClientError):
    retries = Retries(2)
    assert [retries.pause_ms(error, is_alone=True) for _ in range(7)] == [50, 100, 200, 400, 800, 1_000, 1_000]


def test_where_a_message_may_have_been_stored_each_attempt_counts():
    retries = Retries(1)
    assert [retries.pause_ms(DisconnectedError("x"), is_alone=True) for _ in range(2)] == [0, None]


def test_the_only_broker_is_not_asked_twice_for_what_it_does_not_permit():
    assert Retries(2).pause_ms(REFUSED, is_alone=True) is None
    assert Retries(2).pause_ms(REFUSED, is_alone=False) == 0


def test_the_last_attempt_is_known_as_such():
    retries = Retries(1)
    assert not retries.is_last
    retries.pause_ms(FAULT, is_alone=True)
    assert retries.is_last
    assert Retries(0).is_last
