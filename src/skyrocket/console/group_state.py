"""What a group's members and offsets tell: whether they agree, who has consumed a message. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from skyrocket.client.admin import GroupMembers, GroupProgress, MemberState
from skyrocket.client.queues import Queue
from skyrocket.protocol.system_names import RETRY_PREFIX

_NAMED_MEMBERS = 3


def find_mismatches(states: Mapping[str, MemberState]) -> list[str]:
    """Return a sentence for each topic to which the members have subscribed differently.

    Brokers keep one subscription for each group and topic, that of the last heartbeat. Members that differ overwrite each
    other's: each loses messages, and none gets an error.
    """
    topics = sorted({topic for state in states.values() for topic in state.subscriptions if not topic.startswith(RETRY_PREFIX)})
    sentences = []
    for topic in topics:
        members: dict[str, list[str]] = {}
        for client_id, state in sorted(states.items()):
            members.setdefault(state.subscriptions.get(topic, ""), []).append(client_id)
        if len(members) > 1:
            told = "; ".join(f"{_name(ids)} {_describe(expression)}" for expression, ids in sorted(members.items()))
            sentences.append(
                f"Members differ in their subscription to {topic}, so messages do not reach them reliably: {told}. "
                "Give all members of a group the same subscriptions, or use two groups."
            )
    return sentences


def judge_consumption(queue: Queue, offset: int, progress: GroupProgress, members: GroupMembers) -> str:
    """Say in one sentence how far a group is with the message at this offset.

    Offsets tell what a group has passed. Whether it consumed the message, filtered it out or skipped it in a reset, only a trace
    can tell.
    """
    if members.is_broadcasting:
        return "Not known: members that broadcast keep their offsets themselves."
    row = next((row for row in progress.queues if row.queue == queue), None)
    if row is None:
        return "Not consumed: the group has no offset in this queue."
    if offset < row.committed_offset:
        return "Consumed, or passed: the group's offset is beyond it."
    if not members.members:
        return f"Not consumed: no member is connected, and {offset - row.committed_offset:,} messages are before it."
    if offset < row.pulled_offset:
        return "Being consumed: a member has pulled it and has not finished."
    return f"Waiting: {offset - row.committed_offset:,} messages are before it."


def _describe(expression: str) -> str:
    return f"subscribe to '{expression}'" if expression else "do not subscribe to it"


def _name(client_ids: list[str]) -> str:
    shown = ", ".join(client_ids[:_NAMED_MEMBERS])
    return shown if len(client_ids) <= _NAMED_MEMBERS else f"{shown} and {len(client_ids) - _NAMED_MEMBERS} more"
