"""Subscriptions: which messages of a topic a consumer gets. All, those with certain tags, or those that match an SQL92 filter."""

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
    """An SQL92 expression over the properties of messages. Create it with `sql`."""

    expression: str


Expression = str | Sql
TopicSelection = str | Iterable[str] | Mapping[str, Expression]
"""One topic, several topics, or topics with an expression each."""


def sql(expression: str) -> Sql:
    """Select messages by their properties: `sql("price > 100 AND region = 'eu'")`. The broker must allow SQL92 filters."""
    if not expression.strip():
        raise ConfigurationError("An SQL92 expression must not be empty.")
    return Sql(expression)


class Subscription(NamedTuple):
    """The subscription to one topic."""

    topic: str  # as on the wire
    expression: str
    kind: str
    tags: frozenset[str] | None  # None: messages with any tag
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

    def filter(self, messages: list[Received]) -> list[Received]:
        """Keep the messages whose tag was subscribed to. Brokers compare only hash codes, which different tags may share."""
        tags = self.tags
        return messages if tags is None else [message for message in messages if message.tag in tags]


def make_subscription(topic: str, expression: Expression, version: int) -> Subscription:
    """Create a subscription from an expression. Raises ConfigurationError."""
    if isinstance(expression, Sql):
        return Subscription(topic, expression.expression, SQL92, None, version)
    text = expression or EVERY_TAG
    try:
        tags = subscription_tags(text)
    except SubscriptionError as error:
        raise ConfigurationError(str(error)) from error
    return Subscription(topic, text, TAG, tags, version)


def parse_topics(topics: TopicSelection | None) -> dict[str, Expression]:
    """Convert what a user wrote to topic -> expression. Raises ConfigurationError."""
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
            raise ConfigurationError(f"Topic {topic!r} cannot be subscribed to: {error}") from error
    return dict(topics)
