"""The advice that follows from a backlog: a table of rules, each a pure function from a group to symptoms.

A symptom of these rules is about a topic of the group, or with "" about the group as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from skyrocket.doctor.backlog.measure import GroupBacklog, QueueBacklog, TopicBacklog
from skyrocket.doctor.finding import NAMES_MAX, DoctorRule, Symptom
from skyrocket.protocol.system_names import RETRY_PREFIX
from skyrocket.report.parts import Severity
from skyrocket.report.texts import count_of, format_duration, format_number

SKEW_MIN: Final = 3.0  # times the mean, before a queue counts as uneven
SKEW_LAG_MIN: Final = 100  # messages: a small backlog is uneven by chance
FALLING_LAG_MIN: Final = 10  # messages: fewer are under way, and no backlog
STUCK_MS: Final = 10_000  # between the looks: a member that finished nothing for so long is stuck
EXPIRY_SHARE: Final = 0.8  # of the retention: older messages are in danger


class BacklogFinding(NamedTuple):
    """A diagnosis of a group's backlog. Group and topic stand apart: the job `backlog` prints them in columns of their own."""

    rule: str
    severity: Severity
    group: str
    topic: str  # empty: about the group as a whole
    what: str
    evidence: str
    advice: str = ""

    @property
    def sentence(self) -> str:
        """What is so, and what to do."""
        return f"{self.what} {self.advice}".rstrip()


class RuleInput(NamedTuple):
    """What a rule may look at."""

    group: GroupBacklog
    reserved_ms: Mapping[str, int]  # broker name -> how long it keeps messages


def _find_groups_without_members(seen: RuleInput) -> Iterator[Symptom]:
    group = seen.group
    if not group.members and group.lag:
        yield Symptom(
            "",
            f"No member of group '{group.group}' is connected, and messages wait.",
            f"{count_of(group.lag, 'message')} wait in {count_of(len(_waiting(group)), 'topic')}.",
            "Start its consumers.",
        )


def _find_expired(seen: RuleInput) -> Iterator[Symptom]:
    for topic in seen.group.topics:
        if topic.expired:
            yield Symptom(
                topic.topic,
                f"Messages of topic '{topic.topic}' were deleted before group '{topic.group}' read them.",
                f"{count_of(topic.expired, 'message')} between the committed offsets and the first offsets of the queues.",
                "Keep messages longer (fileReservedTime), archive the topic, or speed the group up.",
            )


def _find_expiring(seen: RuleInput) -> Iterator[Symptom]:
    for topic in seen.group.topics:
        endangered = [queue for queue in topic.queues if _expires_before_read(queue, topic, seen.reserved_ms)]
        if endangered:
            worst = max(endangered, key=lambda queue: queue.waiting_ms or 0)
            kept = format_duration(seen.reserved_ms[worst.queue.broker_name])
            yield Symptom(
                topic.topic,
                f"Messages of topic '{topic.topic}' will expire before group '{topic.group}' reads them.",
                f"The oldest unread message has waited {format_duration(worst.waiting_ms)} in {worst.queue}; the broker keeps "
                f"messages for {kept}; time to drain: {format_duration(topic.drain_ms)}.",
                "Archive the topic now, raise fileReservedTime, or speed the group up.",
            )


def _expires_before_read(queue: QueueBacklog, topic: TopicBacklog, reserved_ms: Mapping[str, int]) -> bool:
    kept = reserved_ms.get(queue.queue.broker_name)
    if kept is None or queue.waiting_ms is None:
        return False
    if topic.drain_ms is None:
        return queue.waiting_ms >= EXPIRY_SHARE * kept
    return queue.waiting_ms + topic.drain_ms >= kept


def _find_differing_subscriptions(seen: RuleInput) -> Iterator[Symptom]:
    known = [member for member in seen.group.members if not member.error]
    kinds = {
        tuple(sorted((topic, text) for topic, text in member.subscriptions.items() if not topic.startswith(RETRY_PREFIX)))
        for member in known
    }
    if len(kinds) > 1:
        shown = "; ".join(
            f"{member.client_id}: {', '.join(f'{topic} ({text})' for topic, text in sorted(member.subscriptions.items()))}"
            for member in known[:NAMES_MAX]
        )
        yield Symptom(
            "",
            f"Members of group '{seen.group.group}' subscribe to different topics or tags. Brokers keep the last one that they "
            "heard of, and messages are skipped.",
            shown,
            "Give all members the same subscriptions, or separate groups.",
        )


def _find_stuck_members(seen: RuleInput) -> Iterator[Symptom]:
    if seen.group.between_ms >= STUCK_MS:
        for member, evidence in _list_halted(seen.group):
            yield Symptom(
                "",
                f"Member {member} of group '{seen.group.group}' is stuck: messages wait in its queues, and it finished none "
                "between the looks.",
                evidence,
                "Look at its handler: a call that does not return, or one message that fails again and again.",
            )


def _find_halted_members(seen: RuleInput) -> Iterator[Symptom]:
    """Find members that would be stuck if the looks were further apart: their handlers may only be slow."""
    if seen.group.between_ms < STUCK_MS:
        for member, evidence in _list_halted(seen.group):
            yield Symptom(
                "",
                f"Member {member} of group '{seen.group.group}' finished no message between the looks, though messages wait in "
                "its queues: it is stuck, or slow.",
                evidence,
                f"Look again with --every {STUCK_MS // 1000}.",
            )


def _list_halted(group: GroupBacklog) -> Iterator[tuple[str, str]]:
    """Yield the members that finished nothing between the looks, with the evidence."""
    for member in group.members:
        held = [queue for topic in group.topics for queue in topic.queues if queue.owner == member.client_id]
        standing = [queue for queue in held if queue.is_standing]
        if standing and not any(queue.has_moved for queue in held):
            cached = sum(member.cached.get(queue.queue, 0) for queue in standing)
            evidence = (
                f"{count_of(len(standing), 'queue')} with {count_of(sum(one.lag for one in standing), 'waiting message')}; it "
                f"has pulled {count_of(cached, 'message')} that it has not finished; {format_duration(group.between_ms)} between "
                "the looks."
            )
            yield member.client_id, evidence


def _find_standing_queues(seen: RuleInput) -> Iterator[Symptom]:
    """Find queues that nobody of a group with members reads."""
    group = seen.group
    if not group.members or group.is_broadcasting or any(member.error for member in group.members):
        return
    for topic in group.topics:
        orphans = [queue for queue in topic.queues if queue.lag and not queue.owner]
        if orphans and not any(queue.has_moved for queue in orphans):
            yield Symptom(
                topic.topic,
                f"No member of group '{group.group}' reads {_names(orphans)}, though messages wait there.",
                f"{count_of(sum(queue.lag for queue in orphans), 'message')} in {count_of(len(orphans), 'queue')} without a "
                "member.",
                "Members may have dropped the subscription, or a rebalance is due.",
            )


def _find_idle_members(seen: RuleInput) -> Iterator[Symptom]:
    group = seen.group
    if group.is_broadcasting:
        return
    idle = [
        member
        for member in group.members
        if not member.error and not any(not queue.topic.startswith(RETRY_PREFIX) for queue in member.queues)
    ]
    busy = len(group.members) - len(idle)
    if idle and busy:
        shown = ", ".join(member.client_id for member in idle[:NAMES_MAX])
        yield Symptom(
            "",
            f"{count_of(len(idle), 'member')} of group '{group.group}' have no queue: more members than queues do not help.",
            f"Without a queue: {shown}{' and more' if len(idle) > NAMES_MAX else ''}. With queues: {busy}.",
            "Add queues to the topics, or stop these members.",
        )


def _find_falling_behind(seen: RuleInput) -> Iterator[Symptom]:
    members = len(seen.group.members)
    for topic in seen.group.topics:
        produced, consumed = topic.produced_per_s, topic.consumed_per_s
        is_behind = not topic.keeps_up and topic.lag >= FALLING_LAG_MIN
        if not members or not is_behind or produced is None or consumed is None or produced <= consumed:
            continue
        queues = len(topic.queues)
        if members < queues:
            way_out = f"Add members: there are {members} for {count_of(queues, 'queue')}."
        else:
            way_out = "Every queue has a member already: make the handler quicker or more concurrent, or add queues and members."
        yield Symptom(
            topic.topic,
            f"Group '{topic.group}' falls behind in topic '{topic.topic}': more is produced than consumed.",
            f"{format_number(produced)}/s produced, {format_number(consumed)}/s consumed, {count_of(topic.lag, 'message')} wait.",
            way_out,
        )


def _find_skewed(seen: RuleInput) -> Iterator[Symptom]:
    for topic in seen.group.topics:
        if topic.lag >= SKEW_LAG_MIN and topic.skew >= SKEW_MIN and len(topic.queues) > 1:
            longest = max(topic.queues, key=lambda queue: queue.lag)
            owner = f" Member {longest.owner} reads it." if longest.owner else ""
            yield Symptom(
                topic.topic,
                f"The backlog of group '{topic.group}' in topic '{topic.topic}' is uneven: {longest.queue} has most of it.",
                f"{format_number(longest.lag)} of {format_number(topic.lag)} messages; {format_number(topic.skew)} times the "
                f"mean of {count_of(len(topic.queues), 'queue')}.",
                f"Look for one sharding key with much traffic, or a slow member.{owner}",
            )


def _find_waiting_retries(seen: RuleInput) -> Iterator[Symptom]:
    for topic in seen.group.topics:
        if topic.is_retry and topic.lag:
            yield Symptom(
                topic.topic,
                f"Messages that handlers of group '{topic.group}' refused wait to be retried.",
                f"{count_of(topic.lag, 'message')} in {topic.topic}.",
                "Look at the errors of the handlers.",
            )


def _find_silent_members(seen: RuleInput) -> Iterator[Symptom]:
    for member in seen.group.members:
        if member.error:
            yield Symptom(
                "",
                f"Member {member.client_id} of group '{seen.group.group}' did not tell its queues, so nothing is known of it.",
                member.error,
                "It may hang, or be a client that does not answer such questions.",
            )


def _find_draining(seen: RuleInput) -> Iterator[Symptom]:
    for topic in seen.group.topics:
        if topic.drain_ms is not None and not topic.keeps_up and not topic.is_retry:
            yield Symptom(
                topic.topic,
                f"Group '{topic.group}' catches up in topic '{topic.topic}': in {format_duration(topic.drain_ms)} nothing waits, "
                "if both rates stay.",
                f"{format_number(topic.produced_per_s or 0)}/s produced, {format_number(topic.consumed_per_s or 0)}/s consumed, "
                f"{count_of(topic.lag, 'message')} wait.",
                "",
            )


def _waiting(group: GroupBacklog) -> list[TopicBacklog]:
    return [topic for topic in group.topics if topic.lag]


def _names(queues: list[QueueBacklog]) -> str:
    shown = ", ".join(f"queue {one.queue.queue_id} at {one.queue.broker_name}" for one in queues[:NAMES_MAX])
    return f"{shown}{' and others' if len(queues) > NAMES_MAX else ''} of {queues[0].queue.topic}"


RULES: Final[tuple[DoctorRule[RuleInput], ...]] = (
    DoctorRule("expired", Severity.PROBLEM, _find_expired),
    DoctorRule("expiring", Severity.PROBLEM, _find_expiring),
    DoctorRule("differing-subscriptions", Severity.PROBLEM, _find_differing_subscriptions),
    DoctorRule("no-member", Severity.PROBLEM, _find_groups_without_members),
    DoctorRule("stuck-member", Severity.PROBLEM, _find_stuck_members),
    DoctorRule("standing-queue", Severity.PROBLEM, _find_standing_queues),
    DoctorRule("halted-member", Severity.WARNING, _find_halted_members),
    DoctorRule("falling-behind", Severity.WARNING, _find_falling_behind),
    DoctorRule("skewed", Severity.WARNING, _find_skewed),
    DoctorRule("idle-member", Severity.WARNING, _find_idle_members),
    DoctorRule("silent-member", Severity.WARNING, _find_silent_members),
    DoctorRule("retries-wait", Severity.INFORMATION, _find_waiting_retries),
    DoctorRule("draining", Severity.INFORMATION, _find_draining),
)
"""All rules, the most urgent first. Findings come in this order."""


def find_advice(groups: Iterable[GroupBacklog], reserved_ms: Mapping[str, int]) -> list[BacklogFinding]:
    """Apply every rule to every group."""
    seen = [RuleInput(group, reserved_ms) for group in groups]
    return [
        BacklogFinding(rule.name, rule.severity, one.group.group, *symptom)
        for rule in RULES
        for one in seen
        for symptom in rule.find(one)
    ]
