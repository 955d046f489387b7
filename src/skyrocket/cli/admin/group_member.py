"""What the members of a group tell of themselves: the queues that they hold, and one member's whole answer as text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from skyrocket.cli.output import format_table, format_time
from skyrocket.client import Admin, ClientError
from skyrocket.client.admin import ConsumerClient, MemberState

MEMBERS_ASKED_MAX: Final = 32
_ASKED_AT_ONCE: Final = 8


async def ask_members(admin: Admin, group: str, members: Sequence[ConsumerClient]) -> tuple[dict[str, MemberState], list[str]]:
    """Ask members for their queues. Return their answers, and a sentence for each that did not answer or was not asked."""
    turns = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def ask(client_id: str) -> MemberState | str:
        async with turns:
            try:
                return await admin.groups.member_state(group, client_id)
            except ClientError as error:
                return f"{client_id} does not tell which queues it holds: {error}"

    asked = [one.client_id for one in members[:MEMBERS_ASKED_MAX]]
    answers = await asyncio.gather(*map(ask, asked))
    states = {client_id: answer for client_id, answer in zip(asked, answers, strict=True) if isinstance(answer, MemberState)}
    silent = [answer for answer in answers if isinstance(answer, str)]
    if len(asked) < len(members):
        silent.append(f"{len(asked)} of {len(members)} members were asked for the queues that they hold.")
    return states, silent


def member_text(state: MemberState, *, with_stack: bool) -> str:
    """Format what a member tells of itself."""
    subscriptions = [
        (topic, expression, state.subscription_types.get(topic, "-")) for topic, expression in state.subscriptions.items()
    ]
    queues = [
        (
            *(one.topic, one.broker_name, one.queue_id, one.committed_offset, one.cached_messages),
            *(format_time(one.pulled_ms), format_time(one.consumed_ms)),
        )
        for one in state.queues
    ]
    rates = [
        (topic, *(f"{rate:.1f}" for rate in (row.pulled_rate, row.pull_ms, row.consumed_rate, row.handling_ms, row.failed_rate)))
        for topic, row in state.rates.items()
    ]
    modes = {None: "It does not tell its mode.", True: "It broadcasts.", False: "It shares the queues with the group."}
    parts = [
        f"{state.client_id} of group {state.group}. {modes[state.is_broadcasting]}",
        format_table(("TOPIC", "EXPRESSION", "TYPE"), subscriptions, "It has no subscription."),
        format_table(
            ("TOPIC", "BROKER", "QUEUE", "COMMITTED", "NOT FINISHED", "LAST PULL", "LAST CONSUMED"), queues, "It holds no queue."
        ),
        format_table(("TOPIC", "PULLED/S", "PULL MS", "CONSUMED/S", "HANDLER MS", "FAILED/S"), rates, "It tells no rates."),
        format_table(("SETTING", "VALUE"), state.properties.items(), "It tells no settings."),
    ]
    if with_stack:
        parts.append(state.stack.rstrip() or "It does not tell what its threads do.")
    return "\n\n".join(parts)
