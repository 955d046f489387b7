"""Why a consumer receives nothing: its group's settings, its subscriptions and its offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from skyrocket.client.consumer.subscription import SQL92, TAG, looks_like_sql
from skyrocket.doctor.cluster.facts import ClusterFacts, GroupFacts, SubscriptionFacts
from skyrocket.doctor.finding import Symptom, list_names
from skyrocket.protocol.errors import SubscriptionError
from skyrocket.protocol.message.tags import subscription_tags
from skyrocket.protocol.system_names import RETRY_PREFIX
from skyrocket.report.texts import count_of, format_number, suggest_name

SAMPLE_MIN: Final = 5  # recent messages, before their tags say something


def find_missing_groups(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups_missing:
        yield Symptom(
            f"group {group}",
            f"Group '{group}' does not exist at any broker.",
            suggest_name(group, facts.group_names) or f"The cluster has {count_of(len(facts.group_names), 'group')}.",
            "Check the name and the namespace. A group comes to be when its first consumer connects, unless "
            f"autoCreateSubscriptionGroup is false: then create it with: skyrocket group create {group}",
        )


def find_disabled_groups(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups:
        if group.brokers_disabled:
            yield Symptom(
                f"group {group.group}",
                f"Group '{group.group}' may not consume: brokers refuse its pulls.",
                f"consumeEnable is false at {list_names(group.brokers_disabled)}.",
                f"Allow it again with: skyrocket group create {group.group} --enabled",
            )


def find_forbidden_broadcasts(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups:
        broadcasting = [member for member, is_broadcasting in group.models.items() if is_broadcasting]
        if group.brokers_without_broadcast and (broadcasting or group.look.is_broadcasting):
            yield Symptom(
                f"group {group.group}",
                f"Members of group '{group.group}' broadcast, and its settings forbid it: brokers refuse their pulls.",
                f"consumeBroadcastEnable is false at {list_names(group.brokers_without_broadcast)}; "
                f"broadcasting: {list_names(broadcasting) or 'the group, by what brokers know'}.",
                f"Allow it with: skyrocket group create {group.group} --broadcast, or let the members cluster.",
            )


def find_mixed_models(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups:
        broadcasting = sorted(member for member, is_broadcasting in group.models.items() if is_broadcasting)
        clustering = sorted(member for member, is_broadcasting in group.models.items() if not is_broadcasting)
        if broadcasting and clustering:
            yield Symptom(
                f"group {group.group}",
                f"Some members of group '{group.group}' broadcast and others cluster. Those that cluster leave queues to the "
                "broadcasting ones, whose reading does not count: nobody consumes these queues for the group.",
                f"Broadcasting: {list_names(broadcasting)}. Clustering: {list_names(clustering)}.",
                "Give the broadcasting members a group of their own.",
            )


def find_sql_as_tags(facts: ClusterFacts) -> Iterator[Symptom]:
    for group, subscription in _subscriptions(facts):
        if subscription.kind == TAG and looks_like_sql(subscription.expression):
            yield Symptom(
                f"group {group.group}",
                f"Group '{group.group}' gives an SQL expression as a tag of topic '{subscription.topic}'. No message has a tag "
                "of that name, so the group receives nothing.",
                f"{_teller(subscription)} subscribes with type TAG and the text {subscription.expression!r}.",
                "Write it as SQL: sql('…') of skyrocket.client, or MessageSelector.bySql(…) in Java. The broker needs "
                "enablePropertyFilter=true.",
            )


def find_sql_without_filter(facts: ClusterFacts) -> Iterator[Symptom]:
    """Find SQL subscriptions at brokers that do not filter by SQL: their answer to every pull is an error."""
    refusing = [broker for broker in facts.answering if broker.is_master and broker.config.get("enablePropertyFilter") == "false"]
    names = {broker.name for broker in refusing}
    for group, subscription in _subscriptions(facts):
        topic = facts.topic(subscription.topic)
        places = [] if topic is None else [place.broker_name for place in topic.places if place.broker_name in names]
        if subscription.kind == SQL92 and places:
            yield Symptom(
                f"group {group.group}",
                f"Group '{group.group}' selects messages of topic '{subscription.topic}' by SQL, and brokers refuse that.",
                f"enablePropertyFilter is false at {list_names(places)}; {_teller(subscription)} asks for "
                f"{subscription.expression!r}.",
                "Set enablePropertyFilter=true in broker.conf and start the broker again, or select by tag.",
            )


class UnseenTags(NamedTuple):
    """A subscription to tags that no sampled message has. `hint` names a tag that was perhaps meant."""

    group: str
    subscription: SubscriptionFacts
    evidence: str
    hint: str
    is_certain: bool  # every message of the topic was sampled


def find_wrong_tags(facts: ClusterFacts) -> Iterator[Symptom]:
    """Find tags that no message of a topic has, or that are nearly like one that messages have."""
    for unseen in _find_unseen(facts):
        if unseen.is_certain or unseen.hint:
            topic = unseen.subscription.topic
            yield Symptom(
                f"group {unseen.group}",
                f"Group '{unseen.group}' subscribes to tags of topic '{topic}' that no {'' if unseen.is_certain else 'recent '}"
                "message has.",
                f"{unseen.evidence} {unseen.hint}".rstrip(),
                "Compare the tag in the consumer with the one in the producer: upper and lower case differ, several tags are "
                "written 'a || b', and '*' selects all.",
            )


def find_unseen_tags(facts: ClusterFacts) -> Iterator[Symptom]:
    """Find tags that no recent message has, and older ones may have."""
    for unseen in _find_unseen(facts):
        if not unseen.is_certain and not unseen.hint:
            topic = unseen.subscription.topic
            yield Symptom(
                f"group {unseen.group}",
                f"No recent message of topic '{topic}' has a tag that group '{unseen.group}' subscribes to.",
                unseen.evidence,
                "If such messages are rare, all is well. Otherwise look which tag the producer sends.",
            )


def _find_unseen(facts: ClusterFacts) -> Iterator[UnseenTags]:
    for group, subscription in _subscriptions(facts):
        topic, wanted = facts.topic(subscription.topic), _tags_of(subscription)
        samples = () if topic is None else topic.samples
        seen = sorted({sample.tag for sample in samples})
        if topic is None or not wanted or len(samples) < SAMPLE_MIN or any(tag in seen for tag in wanted):
            continue
        shown = list_names([repr(tag) if tag else "none" for tag in seen])
        evidence = (
            f"{_teller(subscription)} subscribes to {subscription.expression!r}; the tags of the newest "
            f"{format_number(len(samples))} messages are: {shown}."
        )
        hint = next((text for tag in sorted(wanted) if (text := suggest_name(tag, [one for one in seen if one]))), "")
        yield UnseenTags(group.group, subscription, evidence, hint, not topic.has_more)


def find_offsets_beyond_the_end(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups:
        ahead = [queue for queue in group.look.queues if queue.committed_offset > queue.end_offset]
        for topic in sorted({queue.queue.topic for queue in ahead}):
            queues = [queue for queue in ahead if queue.queue.topic == topic]
            shown = [f"{one.queue}: offset {one.committed_offset}, end {one.end_offset}" for one in queues]
            yield Symptom(
                f"group {group.group}",
                f"Offsets of group '{group.group}' in topic '{topic}' lie beyond the end of the queues. It waits for messages "
                "that do not exist yet, or its members start at the end and skip what comes meanwhile.",
                f"{list_names(shown)}.",
                "Was the topic deleted and created again, or the broker's store replaced by an older one? Set the offsets: "
                f"skyrocket offset reset {group.group} {topic} --to first, or --to a time.",
            )


def _subscriptions(facts: ClusterFacts) -> Iterator[tuple[GroupFacts, SubscriptionFacts]]:
    """Yield each subscription of a group once, however many members have it.

    Subscriptions to retry topics are left out: clients make them by themselves.
    """
    for group in facts.groups:
        seen: set[tuple[str, str, str]] = set()
        for one in group.subscriptions:
            key = (one.topic, one.expression, one.kind)
            if key not in seen and not one.topic.startswith(RETRY_PREFIX):
                seen.add(key)
                yield group, one


def _teller(subscription: SubscriptionFacts) -> str:
    return f"Member {subscription.who}" if subscription.who else "A member, by what brokers know,"


def _tags_of(subscription: SubscriptionFacts) -> frozenset[str]:
    """Return the tags that a subscription selects; none if it selects in another way."""
    if subscription.kind != TAG or looks_like_sql(subscription.expression):
        return frozenset()
    try:
        return subscription_tags(subscription.expression) or frozenset()
    except SubscriptionError:
        return frozenset()
