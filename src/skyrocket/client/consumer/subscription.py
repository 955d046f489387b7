"""What a consumer wants of a topic: all of it, messages with certain tags, or those for which an SQL92 expression is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received
from skyrocket.client.session.names import check_topic
from skyrocket.protocol.bodies import SubscriptionData
from skyrocket.protocol.errors import SubscriptionError
from skyrocket.protocol.message.tags import EVERY_TAG, subscription_tags, tags_code

TAG: Final = "TAG"
SQL92: Final = "SQL92"


class Sql(NamedTuple):
    """An expression over messages' properties, as `sql` makes it."""

    expression: str


Expression = str | Sql
Topics = str | Iterable[str] | Mapping[str, Expression]
"""One topic, several, or each with what is wanted of it."""


def sql(expression: str) -> Sql:
    """Messages whose properties make this true: `sql("price > 100 AND region = 'eu'")`. The broker must allow it."""
    if not expression.strip():
        raise ConfigurationError("An SQL92 expression is empty.")
    return Sql(expression)


class Subscription(NamedTuple):
    topic: str  # on the wire
    expression: str
    kind: str
    tags: frozenset[str] | None  # None: every message, as far as tags go
    version: int

    def as_body(self) -> SubscriptionData:
        tags = sorted(self.tags or ())
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            tags_set=tags,
            code_set=[tags_code(tag) for tag in tags],
            sub_version=self.version,
            expression_type=self.kind,
        )

    def wanted(self, messages: list[Received]) -> list[Received]:
        """Brokers compare the hashes of tags, which different tags may share; here it is the words."""
        tags = self.tags
        return messages if tags is None else [message for message in messages if message.tag in tags]


def subscription(topic: str, expression: Expression, version: int) -> Subscription:
    if isinstance(expression, Sql):
        return Subscription(topic, expression.expression, SQL92, None, version)
    text = expression or EVERY_TAG
    try:
        tags = subscription_tags(text)
    except SubscriptionError as error:
        raise ConfigurationError(str(error)) from error
    return Subscription(topic, text, TAG, tags, version)


def topics_wanted(topics: Topics | None) -> dict[str, Expression]:
    """What users write, in one shape."""
    if topics is None:
        return {}
    if isinstance(topics, str):
        topics = {topics: EVERY_TAG}
    elif not isinstance(topics, Mapping):
        topics = dict.fromkeys(topics, EVERY_TAG)
    for topic in topics:
        try:
            check_topic(topic)
        except ValueError as error:
            raise ConfigurationError(f"Nobody can subscribe to {topic!r}: {error}") from error
    return dict(topics)
