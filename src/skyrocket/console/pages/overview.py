"""The overview: what needs attention, rates, answer times and disks, with charts of the last hour."""

from __future__ import annotations

import asyncio

from skyrocket.client.admin import BrokerState
from skyrocket.client.admin.stage_times import STAGES
from skyrocket.console.attention import find_attention
from skyrocket.console.examinations import Subject
from skyrocket.console.limits import URGENT_SHOWN
from skyrocket.console.pages.doctor import link_subjects, list_urgent
from skyrocket.console.visit import Answer, Page, Visit, attempt


async def show_overview(visit: Visit) -> Answer:
    admin = visit.admin
    states, topics, groups = await asyncio.gather(
        attempt(admin.cluster.states()), attempt(admin.topics.names()), attempt(admin.groups.names())
    )
    found = states.value or []
    examined = visit.clients.examinations.last(Subject())
    urgent = list_urgent(examined, visit.now_ms)
    values = {
        "states": states,
        "topics": topics,
        "groups": groups,
        "findings": find_attention(found),
        "totals": sum_states(found),
        "charts": visit.clients.history.charts(),
        "lags": visit.clients.lags.look(),
        "stages": {one.address: {row.stage: row for row in visit.clients.history.stages(one.address)} for one in found},
        "stage_names": [stage for stage in STAGES if stage != "park"],
        "examined": examined,
        "urgent": [(one, link_subjects(one)) for one in urgent[:URGENT_SHOWN]],
        "urgent_left": max(0, len(urgent) - URGENT_SHOWN),
    }
    return Page("overview.html", "Overview", values)


def sum_states(states: list[BrokerState]) -> dict[str, float]:
    """Add up what the brokers tell. A slave's disk counts; its messages are its master's."""
    masters = [one for one in states if one.is_master]
    return {
        "brokers": len(states),
        "up": sum(not one.error for one in states),
        "put_rate": sum(one.put_rate for one in masters),
        "get_rate": sum(one.get_rate for one in states),
        "today": sum(one.messages_today for one in masters),
        "disk": max((one.disk_used_percent for one in states), default=0.0),
    }
