"""Messages: find them by id, by key or by time, and look at one: its body, who consumed it, its trace."""

from __future__ import annotations

import asyncio
from typing import Final

from skyrocket.client import NotFoundError, Queue, Received
from skyrocket.console.body_views import VIEWS, view_body
from skyrocket.console.errors import InputError
from skyrocket.console.group_state import judge_consumption
from skyrocket.console.limits import MESSAGES_PER_PAGE, QUEUE_ROWS_MAX
from skyrocket.console.message_search import FoundMessages, SearchFilter, SearchPosition, search_messages
from skyrocket.console.visit import Answer, Download, Page, PagePart, Visit, attempt, attempt_each

WAYS: Final = {"newest": "the newest", "time": "by time", "key": "by key", "id": "by id"}
_OFFSET_MAX: Final = 2**63 - 1


async def show_messages(visit: Visit) -> Answer:
    query = visit.query
    by = query.choice("by", "The way to search", WAYS, "newest")
    topic, words = query.text("topic"), query.text("words")
    found: PagePart[FoundMessages] | None = None
    if topic or (by == "id" and words):
        found = await attempt(_find(visit, by, topic, words))
    values = {
        "by": by,
        "ways": WAYS,
        "topic": topic,
        "words": words,
        "tag": query.text("tag"),
        "text": query.text("text"),
        "since": query.text("since"),
        "until": query.text("until"),
        "found": found,
    }
    return Page("messages.html", "Messages", values)


async def _find(visit: Visit, by: str, topic: str, words: str) -> FoundMessages:
    query, messages = visit.query, visit.admin.messages
    wanted = SearchFilter(query.text("tag"), query.text("text"))
    since_ms, until_ms = query.moment_ms("since", "The beginning"), query.moment_ms("until", "The end")
    if by == "time":
        skip = query.number("skip", "The number of messages to skip", 0, 10**9) or 0
        return await search_messages(visit.admin, topic, SearchPosition(since_ms or 0, skip), until_ms, wanted.allows)
    if by == "newest":
        newest = await messages.peek(topic, most=MESSAGES_PER_PAGE)
        return _as_found([message for message in reversed(newest) if wanted.allows(message)], len(newest))
    if not words:
        raise InputError(f"Give the {by} to search for.")
    if by == "key":
        return _as_found(await messages.by_key(topic, words, since=since_ms, until=until_ms))
    return _as_found(await _find_by_id(visit, topic, words))


def _as_found(messages: list[Received], searched: int | None = None) -> FoundMessages:
    count = len(messages) if searched is None else searched
    return FoundMessages(messages, count, count, None)


async def _find_by_id(visit: Visit, topic: str, message_id: str) -> list[Received]:
    """Find a message by the producer's id, for which its topic is needed, or by the id of its place, which has its broker."""
    if topic:
        try:
            return await visit.admin.messages.by_unique_id(topic, message_id)
        except NotFoundError:
            pass
    return [await visit.admin.messages.by_offset_id(message_id)]


# --- one message


async def show_message(visit: Visit) -> Answer:
    message = await _read_message(visit)
    kind = visit.query.text("view")
    queue = message.queue
    trace, groups = await asyncio.gather(
        attempt(visit.admin.messages.trace(message.message_id)), attempt(visit.admin.topics.groups(queue.topic))
    )

    async def judge(group: str) -> str:
        progress, members = await asyncio.gather(
            visit.admin.groups.progress(group, queue.topic), visit.admin.groups.members(group)
        )
        return judge_consumption(queue, message.queue_offset, progress, members)

    names = (groups.value or [])[:QUEUE_ROWS_MAX]
    values = {
        "message": message,
        "place": _place(message),
        "body": view_body(message.body, kind),
        "views": list(VIEWS),
        "groups": groups,
        "consumption": list(zip(names, await attempt_each(names, judge), strict=True)),
        "trace": trace,
    }
    return Page("message.html", f"Message {message.message_id}", values)


async def download_body(visit: Visit) -> Answer:
    message = await _read_message(visit)
    return Download(f"{message.message_id}.bin", message.body)


async def _read_message(visit: Visit) -> Received:
    """Read the message at the place that the address names."""
    query = visit.query
    queue_id = query.number("queue", "The queue", 0, 2**31 - 1)
    offset = query.number("offset", "The offset", 0, _OFFSET_MAX)
    if queue_id is None or offset is None:
        raise InputError("The address of a message has its topic, broker, queue and offset.")
    queue = Queue(query.required("topic", "The topic"), query.required("broker", "The broker"), queue_id)
    return await visit.admin.messages.by_offset(queue, offset)


def _place(message: Received) -> dict[str, str]:
    queue = message.queue
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": str(queue.queue_id),
        "offset": str(message.queue_offset),
    }
