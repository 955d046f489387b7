"""Subscriptions: which messages of a topic a consumer gets. All, those with certain tags, or those that match an SQL92 filter."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received
from skyrocket.client.session.names import check_topic
from skyrocket.protocol.bodies import SubscriptionData
from skyrocket.protocol.errors import SubscriptionError
from skyrocket.protocol.message.tags import EVERY_TAG, subscription_tags, tags_code

log = logging.getLogger(__name__)

TAG: Final = "TAG"
SQL92: Final = "SQL92"
_SQL92 = re.compile(
    r"[<>=]|\bIS\s+(NOT\s+)?NULL\b|\bBETWEEN\b.+\bAND\b|\bIN\s*\(|\b(CONTAINS|STARTSWITH|ENDSWITH)\s+'", re.IGNORECASE
)
_LIST = re.compile(r",|\s(or|and)\s", re.IGNORECASE)


class Sql(NamedTuple):
    """An SQL92 expression over the properties of messages. Create it with `sql`."""

    expression: str


Expression = str | Sql
TopicSelection = str | Iterable[str] | Mapping[str, Expression]
"""One topic, several topics, or topics with an expression each."""


def looks_like_sql(text: str) -> bool:
    """Whether a text is an SQL92 expression rather than tags."""
    return _SQL92.search(text) is not None


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
    if not isinstance(expression, str):
        raise ConfigurationError(
            f"The expression of topic '{topic}' is {expression!r}. Write tags, 'web || app', or sql('price > 100')."
        )
    text = expression or EVERY_TAG
    try:
        tags = subscription_tags(text)
    except SubscriptionError as error:
        raise ConfigurationError(str(error)) from error
    _check_tags(topic, text, tags or frozenset())
    return Subscription(topic, text, TAG, tags, version)


def _check_tags(topic: str, text: str, tags: Iterable[str]) -> None:
    """Raise ConfigurationError for tags that can only be a mistake, and warn of tags that probably are one.

    Such a subscription is valid, but receives nothing: no message has the tag.
    """
    expression = f"The expression {text!r} of topic '{topic}'" if topic else f"The expression {text!r}"
    if looks_like_sql(text):
        raise ConfigurationError(
            f"{expression} is SQL92, but a text stands for tags. Write sql({text!r}) instead, imported from skyrocket.client."
        )
    for tag in tags:
        if "|" in tag:
            corrected = " || ".join(part.strip() for part in text.split("|") if part.strip())
            raise ConfigurationError(f"{expression} has a single '|'. Write {corrected!r} instead.")
        if _LIST.search(tag):
            log.warning(
                "Topic '%s' is subscribed to with the single tag %r. To select several tags, separate them with ||.", topic, tag
            )


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
