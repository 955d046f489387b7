"""Topics: the list, one topic with its queues, routes and groups, and how to create, change, delete and try one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final, NamedTuple

from skyrocket.client import ClientError, Message, NoRouteError
from skyrocket.client.admin import TopicRoute, TopicSettings, TopicStatus
from skyrocket.client.admin.topics import QUEUES_MAX
from skyrocket.console.errors import InputError, MissingPageError
from skyrocket.console.limits import QUEUE_ROWS_MAX
from skyrocket.console.visit import Answer, Page, PagePart, Redirect, Visit, address_of, attempt, attempt_each, list_names
from skyrocket.protocol.limits import BODY_BYTES_MAX

TYPE_ATTRIBUTE: Final = "message.type"
TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
PERMISSIONS: Final = {"rw": "read and write", "r": "read only", "w": "write only", "-": "neither"}
_DELAY_S_MAX: Final = 3 * 24 * 3600  # Apache's timerMaxDelaySec


class TopicRow(NamedTuple):
    """A topic in the list."""

    settings: list[TopicSettings]
    status: TopicStatus

    @property
    def queues(self) -> int:
        return sum(one.read_queues for one in self.settings)

    @property
    def kind(self) -> str:
        return topic_type(self.settings)

    @property
    def permission(self) -> str:
        return ", ".join(sorted({one.permission for one in self.settings}))

    @property
    def updated_ms(self) -> int:
        return max((queue.updated_ms for queue in self.status.queues), default=0)


def topic_type(settings: list[TopicSettings]) -> str:
    """Return the type of a topic's messages. Empty: nobody has set one, and brokers take every message."""
    return ", ".join(sorted({one.attributes[TYPE_ATTRIBUTE] for one in settings if TYPE_ATTRIBUTE in one.attributes}))


# --- show


async def show_topics(visit: Visit) -> Answer:
    async def ask(topic: str) -> TopicRow:
        settings, status = await asyncio.gather(visit.admin.topics.get(topic), visit.admin.topics.status(topic))
        return TopicRow(settings, status)

    return Page("topics.html", "Topics", await list_names(visit, visit.admin.topics.names, ask))


async def show_topic(visit: Visit) -> Answer:
    topic, topics = visit.path["topic"], visit.admin.topics
    route = await _find_route(visit, topic)
    settings, status, groups = await asyncio.gather(
        attempt(topics.get(topic)), attempt(topics.status(topic)), attempt(topics.groups(topic))
    )
    names = (groups.value or [])[:QUEUE_ROWS_MAX]
    progress = await attempt_each(names, lambda group: visit.admin.groups.progress(group, topic))
    values = {
        "topic": topic,
        "route": route,
        "settings": settings,
        "status": status,
        "queue_rows": (status.value.queues if status.value else [])[:QUEUE_ROWS_MAX],
        "groups": groups,
        "progress": list(zip(names, progress, strict=True)),
        "kind": topic_type(settings.value or []),
    }
    return Page("topic.html", f"Topic {topic}", values)


async def _find_route(visit: Visit, topic: str) -> PagePart[TopicRoute]:
    """Return the route of a topic. A topic that does not exist has no page; a cluster that does not answer has a sentence."""
    try:
        return PagePart(await visit.admin.topics.route(topic))
    except NoRouteError as error:
        raise MissingPageError(str(error)) from error
    except ClientError as error:
        return PagePart(None, str(error))


# --- create and change


async def show_new_topic(visit: Visit) -> Answer:
    clusters = await attempt(_clusters(visit))
    values = {"topic": "", "settings": None, "clusters": clusters, "types": TYPES, "permissions": PERMISSIONS}
    return Page("topic_form.html", "New topic", values)


async def show_topic_form(visit: Visit) -> Answer:
    topic = visit.path["topic"]
    settings = await visit.admin.topics.get(topic)
    if not settings:
        raise MissingPageError(f"No broker has topic '{topic}'.")
    values = {"topic": topic, "settings": settings, "clusters": None, "types": TYPES, "permissions": PERMISSIONS}
    return Page("topic_form.html", f"Change topic {topic}", {**values, "kind": topic_type(settings)})


async def _clusters(visit: Visit) -> list[str]:
    return sorted({one.cluster for one in await visit.admin.cluster.brokers()})


async def create_topic(visit: Visit) -> Answer:
    topic = visit.form.required("topic", "The name of the topic")
    if topic in await visit.admin.topics.names(internal=True):
        raise InputError(f"Topic '{topic}' exists already. Nothing was changed.")
    return await _write_topic(visit, topic, "created")


async def change_topic(visit: Visit) -> Answer:
    topic = visit.path["topic"]
    await visit.admin.topics.route(topic)  # a change must not create a topic
    return await _write_topic(visit, topic, "changed")


async def _write_topic(visit: Visit, topic: str, what: str) -> Answer:
    form = visit.form
    kind = form.text("type")
    if kind:
        form.choice("type", "The type", TYPES)
    read_queues = form.number("read_queues", "The number of read queues", 1, QUEUES_MAX)
    write_queues = form.number("write_queues", "The number of write queues", 1, QUEUES_MAX)
    permission = form.choice("permission", "The permission", PERMISSIONS, "rw")
    await visit.admin.topics.create(
        topic,
        read_queues=read_queues,
        write_queues=write_queues,
        permission=permission,
        attributes={TYPE_ATTRIBUTE: kind} if kind else None,
        cluster=form.text("cluster") or None,
        brokers=None if what == "created" else [one.broker_name for one in await visit.admin.topics.get(topic)],
    )
    change = f"topic {topic} {what}: {read_queues} read and {write_queues} write queues, {permission}, type {kind or 'unchanged'}"
    return Redirect(address_of("topics", topic), f"Topic {topic} is {what}.", change)


# --- delete


async def show_deletion(visit: Visit) -> Answer:
    topic = visit.path["topic"]
    route = await _find_route(visit, topic)
    status, groups = await asyncio.gather(attempt(visit.admin.topics.status(topic)), attempt(visit.admin.topics.groups(topic)))
    values = {"topic": topic, "route": route, "status": status, "groups": groups}
    return Page("topic_delete.html", f"Delete topic {topic}", values)


async def delete_topic(visit: Visit) -> Answer:
    topic = visit.path["topic"]
    visit.form.confirm(topic)
    await visit.admin.topics.delete(topic)
    return Redirect("/topics", f"Topic {topic} is deleted.", f"topic {topic} deleted")


# --- a test message


async def send_message(visit: Visit) -> Answer:
    """Send a test message, and show where it was stored."""
    topic, form = visit.path["topic"], visit.form
    body = form.raw("body").encode()
    if len(body) > BODY_BYTES_MAX:
        raise InputError(f"A body has at most {BODY_BYTES_MAX:,} bytes, not {len(body):,}.")
    delay_s = form.number("delay_s", "The delay", 0, _DELAY_S_MAX)
    message = Message(
        topic,
        body,
        tag=form.text("tag"),
        keys=form.text("keys").split(),
        properties=form.pairs_of_lines("properties", "Properties"),
        sharding_key=form.text("sharding_key"),
        deliver_in=timedelta(seconds=delay_s) if delay_s else None,
    )
    receipt = await visit.clients.producer.send(message)
    place = f"queue {receipt.queue.queue_id} of {receipt.queue.broker_name}, offset {receipt.queue_offset}"
    notice = f"Sent message {receipt.message_id}: {receipt.status.name}, {place}."
    return Redirect(address_of("topics", topic), notice, f"message {receipt.message_id} sent to topic {topic}")
