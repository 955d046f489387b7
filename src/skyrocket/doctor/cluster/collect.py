"""Collects the facts of a cluster through the admin client: ours or Apache's. It changes nothing there.

A question that is not answered is a fact too: it stands in `unanswered`, and the other questions go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from skyrocket.client import Admin, BrokerError, ClientError, NoNameserverError, NoRouteError, NotFoundError
from skyrocket.client.admin import BrokerInfo
from skyrocket.doctor.backlog.collect import BacklogCollector
from skyrocket.doctor.backlog.look import ClusterLook, GroupLook
from skyrocket.doctor.backlog.measure import measure
from skyrocket.doctor.bounded_requests import answer_or_error, ask_each
from skyrocket.doctor.cluster.facts import (
    BrokerFacts,
    ClusterFacts,
    GroupFacts,
    MessageSample,
    NameserverFacts,
    SlaveFacts,
    SubscriptionFacts,
    TopicFacts,
    TopicPlace,
)
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

SAMPLE_MESSAGES: Final = 64  # newest messages of a topic whose tags and times are compared
SAMPLED_TOPICS_MAX: Final = 50
TOPICS_MAX: Final = 1_000
GROUPS_MAX: Final = 200
_INTERNAL: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)

T = TypeVar("T")


class CollectedFacts(NamedTuple):
    """The facts, and what could not be found out."""

    facts: ClusterFacts
    unanswered: list[str]


class Registered(NamedTuple):
    """What a nameserver says. `error` says why it did not answer."""

    nameserver: str
    brokers: list[BrokerInfo]
    error: str

    def as_facts(self) -> NameserverFacts:
        return NameserverFacts(self.nameserver, frozenset((one.broker_name, one.address) for one in self.brokers), self.error)


class ClusterCollector:
    def __init__(self, admin: Admin, groups: Sequence[str] = (), topics: Iterable[str] = ()) -> None:
        """Without `groups` it looks at all groups, or at those of `topics`; without `topics` at all topics of these groups."""
        self._admin = admin
        self._groups = tuple(dict.fromkeys(groups))
        self._topics = tuple(dict.fromkeys(topics))
        self._unanswered: list[str] = []

    async def collect(self, every_s: float) -> CollectedFacts:
        """Take two looks, `every_s` apart; with 0, one. Raises NoNameserverError when no nameserver answers."""
        registered = await self._ask_nameservers()
        topic_names = await self._ask(self._admin.topics.names(), "The names of topics", [])
        brokers = await self._look_at_brokers(registered)
        group_names, wanted, missing = await self._choose_groups(brokers)
        backlog = BacklogCollector(self._admin, wanted, self._topics)
        first = await self._look_at_groups(backlog, wanted)
        brokers_before: dict[str, BrokerFacts] = {}
        second: ClusterLook | None = None
        if every_s:
            await asyncio.sleep(every_s)
            brokers_before = {broker.address: broker for broker in brokers}
            brokers = await self._look_at_brokers(await self._ask_nameservers())
            second = await self._look_at_groups(backlog, wanted)
        last = second or first
        groups = [] if last is None else await ask_each(last.groups, self._look_at_group)
        topics = self._choose_topics(groups, topic_names)
        sampled = frozenset(self._topics) | {one.topic for group in groups for one in group.subscriptions}
        facts = ClusterFacts(
            nameservers=[one.as_facts() for one in registered],
            brokers=brokers,
            brokers_before=brokers_before,
            topics=await self._look_at_topics(topics, sampled, brokers),
            topic_names=topic_names,
            groups=groups,
            groups_missing=missing,
            group_names=group_names,
            backlog=[] if last is None else measure(first if second is not None else None, last),
            reserved_ms={} if last is None else last.reserved_ms,
        )
        return CollectedFacts(facts, list(dict.fromkeys(self._unanswered)))

    # --- servers

    async def _ask_nameservers(self) -> list[Registered]:
        """Ask each nameserver for the brokers that it knows. Raises NoNameserverError when none answers."""

        async def ask(address: str) -> Registered:
            return Registered(address, *await answer_or_error(self._admin.cluster.brokers(address), []))

        found = await ask_each(self._admin.cluster.nameservers, ask)
        if all(one.error for one in found):
            raise NoNameserverError(
                f"No nameserver answers: {'; '.join(one.error for one in found)} Start one, or give its address: -n host:port."
            )
        return found

    async def _look_at_brokers(self, registered: Sequence[Registered]) -> list[BrokerFacts]:
        known = dict.fromkeys(broker for one in registered for broker in one.brokers)
        return await ask_each(sorted(known, key=lambda one: (one.cluster, one.broker_name, one.broker_id)), self._look_at_broker)

    async def _look_at_broker(self, broker: BrokerInfo) -> BrokerFacts:
        place = (broker.cluster, broker.broker_name, broker.broker_id, broker.address)
        cluster, began_ms = self._admin.cluster, _now_ms()
        try:
            runtime = await cluster.runtime(broker.address)
        except BrokerError as error:
            return BrokerFacts(*place, refusal=str(error))
        except ClientError as error:
            return BrokerFacts(*place, error=str(error))
        asked_ms = (began_ms + _now_ms()) // 2
        config = await self._ask(cluster.config(broker.address), f"The settings of broker {broker.broker_name}", {})
        slaves: list[SlaveFacts] | None = None
        if broker.is_master:
            state = await self._ask(cluster.replication(broker.address), f"The slaves of broker {broker.broker_name}", None)
            if state is not None:
                slaves = [SlaveFacts(one.address, one.copied_offset, one.lag_bytes) for one in state.slaves]
        return BrokerFacts(*place, asked_ms=asked_ms, runtime=runtime, config=config, slaves=slaves)

    # --- groups

    async def _choose_groups(self, brokers: Sequence[BrokerFacts]) -> tuple[list[str], list[str], list[str]]:
        """Return the names of all groups, those to look at, and those that were asked for and do not exist."""
        if not any(broker.is_master and not broker.error for broker in brokers):
            self._unanswered.append("No master answers, so nothing is known of groups.")
            return [], [], []
        names = await self._ask(self._admin.groups.names(), "The names of groups", [])
        if self._groups:
            missing = [group for group in self._groups if not await self._exists(group)]
            return names, [group for group in self._groups if group not in missing], missing
        if self._topics:
            found: list[str] = []
            for topic in self._topics:
                try:
                    found += await self._admin.topics.groups(topic)
                except NoRouteError:
                    continue  # a rule tells it
                except ClientError as error:
                    self._unanswered.append(f"The groups of topic '{topic}' are not known: {error}")
            return names, sorted(set(found)), []
        if len(names) > GROUPS_MAX:
            self._unanswered.append(
                f"Only the first {GROUPS_MAX} of {len(names)} groups were looked at. Choose some with --group."
            )
        return names, names[:GROUPS_MAX], []

    async def _exists(self, group: str) -> bool:
        try:
            await self._admin.groups.get(group)
        except NotFoundError:
            return bool(await self._ask(self._admin.groups.topics(group), f"The topics of group '{group}'", []))
        except ClientError as error:
            self._unanswered.append(f"Group '{group}' was not looked at: {error}")
        return True

    async def _look_at_groups(self, backlog: BacklogCollector, wanted: Sequence[str]) -> ClusterLook | None:
        if not wanted:
            return None
        look, error = await answer_or_error(backlog.look(), None)
        if look is None:
            self._unanswered.append(f"Groups were not looked at: {error}")
            return None
        self._unanswered += [f"Group '{group}' was not looked at: {reason}" for group, reason in look.unanswered.items()]
        return look

    async def _look_at_group(self, look: GroupLook) -> GroupFacts:
        admin, group = self._admin.groups, look.group
        settings, _ = await answer_or_error(admin.get(group), [])  # a deleted group may have offsets and no settings
        members = await self._ask(admin.members(group), f"The members of group '{group}'", None)
        subscriptions = [
            SubscriptionFacts(topic, text, member.subscription_types.get(topic, ""), member.client_id)
            for member in look.members
            for topic, text in member.subscriptions.items()
        ]
        if members is not None:
            subscriptions += [
                SubscriptionFacts(topic, text, members.subscription_types.get(topic, ""), "")
                for topic, text in members.subscriptions.items()
            ]
        return GroupFacts(
            group,
            look,
            brokers_disabled=[one.broker_name for one in settings if not one.is_enabled],
            brokers_without_broadcast=[one.broker_name for one in settings if not one.may_broadcast],
            subscriptions=subscriptions,
            models={one.client_id: one.is_broadcasting for one in look.members if one.is_broadcasting is not None},
        )

    # --- topics

    def _choose_topics(self, groups: Sequence[GroupFacts], names: Sequence[str]) -> list[str]:
        of_groups = {one.topic for group in groups for one in group.subscriptions}
        wanted = set(self._topics) | of_groups
        if not self._topics and not self._groups:
            wanted |= set(names)
        found = sorted(topic for topic in wanted if not topic.startswith(_INTERNAL))
        if len(found) > TOPICS_MAX:
            self._unanswered.append(
                f"Only the first {TOPICS_MAX} of {len(found)} topics were looked at. Choose some with --topic."
            )
        return found[:TOPICS_MAX]

    async def _look_at_topics(
        self, topics: Sequence[str], sampled: frozenset[str], brokers: Sequence[BrokerFacts]
    ) -> list[TopicFacts]:
        """Look at routes of all topics, and at messages of those that groups subscribe to or that were asked for."""
        chosen = frozenset(sorted(sampled & frozenset(topics))[:SAMPLED_TOPICS_MAX])

        async def look(topic: str) -> TopicFacts | None:
            try:
                route = await self._admin.topics.route(topic)
            except NoRouteError:
                return TopicFacts(topic, holders=await self._holders(topic, brokers))
            except ClientError as error:
                self._unanswered.append(f"Topic '{topic}' was not looked at: {error}")
                return None
            places = [
                TopicPlace(one.broker_name, one.cluster, one.read_queues, one.write_queues, one.permission)
                for one in route.brokers
            ]
            is_readable = any("r" in place.permission for place in places)
            samples = await self._sample(topic) if topic in chosen and is_readable else []
            return TopicFacts(topic, places, samples=samples, has_more=len(samples) >= SAMPLE_MESSAGES)

        return [one for one in await ask_each(topics, look) if one is not None]

    async def _holders(self, topic: str, brokers: Sequence[BrokerFacts]) -> list[str]:
        """Ask the masters themselves for a topic without a route."""
        masters = [broker for broker in brokers if broker.is_master and not broker.error and not broker.refusal]
        found = await ask_each(masters, lambda one: answer_or_error(self._admin.topics.get_at(topic, one.name), None))
        return [broker.name for broker, (settings, _) in zip(masters, found, strict=True) if settings is not None]

    async def _sample(self, topic: str) -> list[MessageSample]:
        newest = await self._ask(
            self._admin.messages.peek(topic, most=SAMPLE_MESSAGES), f"The newest messages of topic '{topic}'", []
        )
        return [MessageSample(one.tag or "", one.born_ms, one.stored_ms, one.born_host) for one in newest]

    # ---

    async def _ask(self, answer: Awaitable[T], what: str, otherwise: T) -> T:
        """Return the answer. When it is an error, note that `what` is not known and return `otherwise`."""
        found, error = await answer_or_error(answer, otherwise)
        if error:
            self._unanswered.append(f"{what} are not known: {error}")
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
