"""Consumer groups: the list, one group with its members and its lag, and how to create, change, reset and delete one."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from skyrocket.client import NotFoundError
from skyrocket.client.admin import GroupMembers, GroupProgress, MemberState
from skyrocket.client.admin.groups import find_holders
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.console.errors import InputError, MissingPageError
from skyrocket.console.group_state import find_mismatches
from skyrocket.console.limits import MEMBERS_ASKED_MAX, QUEUE_ROWS_MAX
from skyrocket.console.offset_plan import OffsetPlan, plan_offsets
from skyrocket.console.visit import Answer, Page, PagePart, Redirect, Visit, address_of, attempt, attempt_each, list_names
from skyrocket.protocol.system_names import RETRY_PREFIX
from skyrocket.report.texts import format_moment

_RETRIES_MAX: Final = 10_000
TARGETS: Final = {"first": "the beginning of each queue", "last": "the end of each queue", "time": "a time"}


class GroupRow(NamedTuple):
    """A group in the list."""

    members: GroupMembers
    progress: GroupProgress

    @property
    def mode(self) -> str:
        modes = {None: "–", True: "broadcasting", False: "clustering"}
        return modes[self.members.is_broadcasting]

    @property
    def topics(self) -> list[str]:
        return sorted({row.topic for row in self.progress.queues if not row.topic.startswith(RETRY_PREFIX)})


# --- show


async def show_groups(visit: Visit) -> Answer:
    async def ask(group: str) -> GroupRow:
        members, progress = await asyncio.gather(visit.admin.groups.members(group), visit.admin.groups.progress(group))
        return GroupRow(members, progress)

    return Page("groups.html", "Groups", await list_names(visit, visit.admin.groups.names, ask))


async def show_group(visit: Visit) -> Answer:
    group, groups = visit.path["group"], visit.admin.groups
    settings, members, progress = await asyncio.gather(
        attempt(groups.get(group)), attempt(groups.members(group)), attempt(groups.progress(group))
    )
    if (
        settings.error
        and not settings.value
        and not (members.value and members.value.members)
        and await _is_missing(visit, group)
    ):
        raise MissingPageError(settings.error)
    asked = [one.client_id for one in (members.value.members if members.value else [])[:MEMBERS_ASKED_MAX]]
    answers = await attempt_each(asked, lambda client_id: groups.member_state(group, client_id))
    states: dict[str, PagePart[MemberState]] = dict(zip(asked, answers, strict=True))
    told = {client_id: state.value for client_id, state in states.items() if state.value is not None}
    rows = progress.value.queues if progress.value else []
    largest = sorted(rows, key=lambda row: -row.lag)[:QUEUE_ROWS_MAX]
    values = {
        "group": group,
        "settings": settings,
        "members": members,
        "member_states": states,
        "mismatches": find_mismatches(told),
        "holders": find_holders(told),
        "progress": progress,
        "queue_rows": sorted(largest, key=lambda row: row.queue),
        "topics": sorted({row.topic for row in rows}),
    }
    return Page("group.html", f"Group {group}", values)


async def _is_missing(visit: Visit, group: str) -> bool:
    """Whether no broker knows the group, not even by offsets that a deleted group has left."""
    try:
        await visit.admin.groups.get(group)
    except NotFoundError:
        return not await visit.admin.groups.topics(group)
    return False


async def show_member(visit: Visit) -> Answer:
    group, client_id = visit.path["group"], visit.path["client"]
    with_stack = visit.query.is_set("stack")
    state = await attempt(visit.admin.groups.member_state(group, client_id, stack=with_stack))
    values = {"group": group, "client_id": client_id, "state": state, "with_stack": with_stack}
    return Page("member.html", f"Member {client_id}", values)


# --- create, change, delete


async def show_new_group(_visit: Visit) -> Answer:
    return Page("group_form.html", "New group", {"group": "", "now": None})


async def show_group_form(visit: Visit) -> Answer:
    group = visit.path["group"]
    return Page("group_form.html", f"Change group {group}", {"group": group, "now": (await visit.admin.groups.get(group))[0]})


async def create_group(visit: Visit) -> Answer:
    group = visit.form.required("group", "The name of the group")
    if group in await visit.admin.groups.names(internal=True):
        raise InputError(f"Group '{group}' exists already. Nothing was changed.")
    return await _write_group(visit, group, "created")


async def change_group(visit: Visit) -> Answer:
    group = visit.path["group"]
    await visit.admin.groups.get(group)  # a change must not create a group
    return await _write_group(visit, group, "changed")


async def _write_group(visit: Visit, group: str, what: str) -> Answer:
    form = visit.form
    retries_max = form.number("retries_max", "The number of retries", -1, _RETRIES_MAX)
    enabled, broadcast, orderly = form.is_set("enabled"), form.is_set("broadcast"), form.is_set("orderly")
    await visit.admin.groups.create(group, enabled=enabled, broadcast=broadcast, orderly=orderly, retries_max=retries_max)
    change = f"group {group} {what}: enabled {enabled}, broadcast {broadcast}, orderly {orderly}, retries {retries_max}"
    return Redirect(address_of("groups", group), f"Group {group} is {what}.", change)


async def show_deletion(visit: Visit) -> Answer:
    group = visit.path["group"]
    members, topics = await asyncio.gather(attempt(visit.admin.groups.members(group)), attempt(visit.admin.groups.topics(group)))
    return Page("group_delete.html", f"Delete group {group}", {"group": group, "members": members, "topics": topics})


async def delete_group(visit: Visit) -> Answer:
    group = visit.path["group"]
    visit.form.confirm(group)
    with_topics = visit.form.is_set("topics")
    await visit.admin.groups.delete(group, topics=with_topics)
    change = f"group {group} deleted{' with its retry and dead-letter topics' if with_topics else ''}"
    return Redirect("/groups", f"Group {group} is deleted.", change)


# --- reset


async def show_reset(visit: Visit) -> Answer:
    """Show what a reset would do. Nothing changes before the button on this page is pressed."""
    group, topic = visit.path["group"], visit.query.required("topic", "The topic")
    to, at_ms = visit.query.choice("to", "The target", TARGETS, "last"), visit.query.moment_ms("at", "The time")
    start = _start(to, at_ms)
    target = format_moment(at_ms) if to == "time" and at_ms is not None else TARGETS[to]
    values = {
        "group": group,
        "topic": topic,
        "to": to,
        "at": at_ms if to == "time" else "",
        "target": target,
        "plan": await attempt(_plan(visit, group, topic, start)),
    }
    return Page("reset.html", f"Reset {group}", values)


async def _plan(visit: Visit, group: str, topic: str, start: Start) -> OffsetPlan:
    now, then = await asyncio.gather(visit.admin.offsets.get(group, topic), visit.admin.offsets.at(topic, start))
    return plan_offsets({row.queue: row.offset for row in now}, then)


async def reset_offsets(visit: Visit) -> Answer:
    group, topic = visit.path["group"], visit.form.required("topic", "The topic")
    to, at_ms = visit.form.choice("to", "The target", TARGETS), visit.form.moment_ms("at", "The time")
    await visit.admin.offsets.reset(group, topic, _start(to, at_ms))
    target = format_moment(at_ms) if to == "time" and at_ms is not None else TARGETS[to]
    sentence = f"The offsets of {group} in {topic} are reset to {target}."
    return Redirect(address_of("groups", group), sentence, f"offsets of group {group} in topic {topic} reset to {target}")


def _start(to: str, at_ms: int | None) -> Start:
    if to == "first":
        return "first"
    if to == "last":
        return "last"
    if at_ms is None:
        raise InputError("Give the time to which the offsets are to be reset.")
    return at_ms
