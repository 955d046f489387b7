from __future__ import annotations

import pytest

from skyrocket.client.errors import BrokerError, ClientError, DisconnectedError, TimedOutError, UnreachableError
from skyrocket.client.producer.retry_policy import RetryPolicy
from skyrocket.protocol.responses import ResponseCode

BUSY = BrokerError(ResponseCode.SYSTEM_BUSY, "busy", "a:1")
FAULT = BrokerError(ResponseCode.SYSTEM_ERROR, "fault", "a:1")
REFUSED = BrokerError(ResponseCode.NO_PERMISSION, "not yours", "a:1")
ILLEGAL = BrokerError(ResponseCode.MESSAGE_ILLEGAL, "too large", "a:1")


@pytest.mark.parametrize("error", [DisconnectedError("x"), TimedOutError("x"), UnreachableError("x"), FAULT])
def test_another_broker_is_tried_at_once_up_to_the_retry_limit(error: ClientError):
    retries = RetryPolicy(2)
    assert [retries.pause_ms(error, is_alone=False) for _ in range(3)] == [0, 0, None]


@pytest.mark.parametrize("is_alone", [True, False])
def test_refusal_that_every_broker_would_give_is_not_retried(is_alone: bool):
    assert RetryPolicy(2).pause_ms(ILLEGAL, is_alone=is_alone) is None


def test_only_broker_is_retried_with_growing_pauses_when_it_cannot_be_reached():
    retries = RetryPolicy(2)
    assert [retries.pause_ms(UnreachableError("x"), is_alone=True) for _ in range(7)] == [50, 100, 200, 400, 800, 1_000, 1_000]


@pytest.mark.parametrize("is_alone", [True, False])
def test_busy_broker_is_retried_without_counting_and_back_pressure_says_when(is_alone: bool):
    retries = RetryPolicy(0)
    assert [retries.pause_ms(BUSY, is_alone=is_alone) for _ in range(100)] == [0] * 100


def test_attempt_counts_when_the_message_may_be_stored():
    retries = RetryPolicy(1)
    assert [retries.pause_ms(DisconnectedError("x"), is_alone=True) for _ in range(2)] == [0, None]


def test_only_broker_is_not_retried_after_no_permission():
    assert RetryPolicy(2).pause_ms(REFUSED, is_alone=True) is None
    assert RetryPolicy(2).pause_ms(REFUSED, is_alone=False) == 0


def test_is_last_before_the_last_attempt():
    retries = RetryPolicy(1)
    assert not retries.is_last
    retries.pause_ms(FAULT, is_alone=True)
    assert retries.is_last
    assert RetryPolicy(0).is_last
