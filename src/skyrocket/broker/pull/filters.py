"""Filters of messages: by tags, compared as hashes, or by an SQL92 expression over properties.

An invalid expression is refused at its first use, with the position and the reason:

    46, a check of a subscription           SUBSCRIPTION_PARSE_FAILED
    a pull with its own expression          SUBSCRIPTION_PARSE_FAILED (Apache's broker returns every message instead)
    a pull by its group's heartbeat         FILTER_DATA_NOT_EXIST
    any of these while filters are off      SYSTEM_ERROR
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from skyrocket.broker.pull.sql.errors import ExpressionError
from skyrocket.broker.pull.sql.filter import SqlFilter
from skyrocket.broker.pull.sql.limits import EXPRESSION_LENGTH_MAX, FILTERS_KEPT_LENGTH_MAX, FILTERS_KEPT_MAX
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import RefusedError
from skyrocket.protocol.bodies import SubscriptionData
from skyrocket.protocol.errors import SubscriptionError
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.message.tags import subscription_codes
from skyrocket.protocol.responses import ResponseCode

TAG: Final = "TAG"
SQL92: Final = "SQL92"
KEPT_SUBSCRIPTIONS_MAX: Final = 1024  # by tags
KEPT_SUBSCRIPTION_LENGTH_MAX: Final = 1024  # characters


class MessageFilter(NamedTuple):
    """Which messages a pull selects."""

    codes: frozenset[int] | None = None  # hash codes of tags; None selects every message
    sql: SqlFilter | None = None


class Filters:
    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._cache: dict[str, SqlFilter | ExpressionError] = {}  # in order of last use
        self._cache_length = 0

    def check(self, subscription: SubscriptionData) -> None:
        """Raise RefusedError when a consumer may not subscribe like this."""
        if not _is_by_tags(subscription.expression_type):
            self._check_enabled(subscription.expression_type)
            self._filter(subscription.expression_type, subscription.sub_string, ResponseCode.SUBSCRIPTION_PARSE_FAILED)

    def for_pull(self, header: PullMessageRequestHeader) -> MessageFilter:
        """Return the filter that a pull brings with it."""
        if _is_by_tags(header.expression_type):
            try:
                return _filter_by_tags(header.subscription)
            except SubscriptionError as error:
                raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
        if header.subscription:
            self._check_enabled(header.expression_type)
        return MessageFilter(
            sql=self._filter(header.expression_type, header.subscription, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
        )

    def for_subscription(self, subscription: SubscriptionData) -> MessageFilter:
        """Return the filter of a subscription from a group's heartbeats."""
        if _is_by_tags(subscription.expression_type):
            return MessageFilter(frozenset(subscription.code_set) if subscription.code_set else None)
        sql = self._filter(subscription.expression_type, subscription.sub_string, ResponseCode.FILTER_DATA_NOT_EXIST)
        self._check_enabled(subscription.expression_type)
        return MessageFilter(sql=sql)

    def _check_enabled(self, kind: str | None) -> None:
        if not self._settings().property_filter:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"This broker does not filter by {_shown(kind)}: its setting enablePropertyFilter is false.",
            )

    # --- expressions

    def _filter(self, kind: str | None, expression: str | None, refusal: ResponseCode) -> SqlFilter:
        if kind != SQL92:
            raise RefusedError(refusal, f"There are no filters of type {_shown(kind)}; there are {TAG} and {SQL92}.")
        found = self._compile(expression or "")
        if isinstance(found, ExpressionError):
            raise RefusedError(refusal, str(found))
        return found

    def _compile(self, expression: str) -> SqlFilter | ExpressionError:
        """Compile an expression, or take it from the cache. Errors are cached too, because clients repeat the same expression."""
        found = self._cache.pop(expression, None)
        if found is None:
            try:
                found = SqlFilter(expression)
            except ExpressionError as error:
                found = error.with_traceback(None)
            if len(expression) > EXPRESSION_LENGTH_MAX:
                return found  # not worth caching: the length alone decides
            self._make_room(len(expression))
        self._cache[expression] = found
        return found

    def _make_room(self, length: int) -> None:
        self._cache_length += length
        while len(self._cache) >= FILTERS_KEPT_MAX or self._cache_length > FILTERS_KEPT_LENGTH_MAX:
            oldest = next(iter(self._cache))
            del self._cache[oldest]
            self._cache_length -= len(oldest)


def _filter_by_tags(subscription: str | None) -> MessageFilter:
    if subscription is not None and len(subscription) > KEPT_SUBSCRIPTION_LENGTH_MAX:
        return MessageFilter(subscription_codes(subscription))
    return _kept_filter_by_tags(subscription)


@lru_cache(maxsize=KEPT_SUBSCRIPTIONS_MAX)  # a consumer's pulls have the same subscription again and again
def _kept_filter_by_tags(subscription: str | None) -> MessageFilter:
    return MessageFilter(subscription_codes(subscription))


def _is_by_tags(kind: str | None) -> bool:
    return kind in (None, "", TAG)


def _shown(kind: str | None) -> str:
    return f"'{(kind or '')[:32]}'"
