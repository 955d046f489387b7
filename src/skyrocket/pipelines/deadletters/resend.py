"""Sends dead letters to their original topics again, each once, however often the job is killed and run again.

    chosen letters ─▶ without those that the record has ─▶ chunks: record `begin` ─▶ send ─▶ record `sent` or `failed`
    letters that a killed run left open ─▶ looked up in their topics, from where the queues ended before the chunk

A resent message is a new message with the body, tag, keys and properties of the letter. Its properties SR_RESENT_* name the
letter, who resent it and when. All groups of the topic get it, not only the one that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from skyrocket.client import Admin, ClientError, InvalidMessageError, Message, NoRouteError, Producer, SendFailedError
from skyrocket.pipelines.deadletters.letters import RESENT_PREFIX, DeadLetter
from skyrocket.pipelines.deadletters.resend_record import Ends, ResendRecord
from skyrocket.pipelines.replay.queue_replay import SETTLE_S

CHUNK_LETTERS: Final = 100  # sent at the same time, and recorded together
RESENT_LETTER: Final = f"{RESENT_PREFIX}LETTER"  # the letter's id
RESENT_FROM: Final = f"{RESENT_PREFIX}FROM"  # the dead-letter topic
RESENT_MESSAGE: Final = f"{RESENT_PREFIX}MESSAGE"  # the unique id of the message that died
RESENT_BY: Final = f"{RESENT_PREFIX}BY"
RESENT_AT: Final = f"{RESENT_PREFIX}AT"


@dataclass(slots=True)
class ResendResult:
    """What a resend did."""

    sent: int = 0
    known: int = 0  # resent by an earlier run
    found: int = 0  # sent by a run that was killed before it could record it; among `known`
    failed: dict[str, str] = field(default_factory=dict)  # letter -> reason; no broker has the message
    unknown: dict[str, str] = field(default_factory=dict)  # letter -> reason; a later run looks it up


@dataclass(frozen=True, slots=True)
class Resender:
    """Who resends, with which clients and which record."""

    admin: Admin
    producer: Producer
    record: ResendRecord
    run: str  # an id of this run
    by: str  # such as ann@ops-1
    at: str  # ISO 8601
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def resend(self, letters: Iterable[DeadLetter] | AsyncIterable[DeadLetter]) -> AsyncIterator[ResendResult]:
        """Resend letters, and yield what was done so far after each chunk. The first result is about earlier runs."""
        result = ResendResult()
        result.found = await self._look_up_open()
        async for chunk in _chunks(letters):
            await self._send_chunk(self._choose_unsent(chunk, result), result)
            yield result
        yield result

    def _choose_unsent(self, chunk: Iterable[DeadLetter], result: ResendResult) -> list[DeadLetter]:
        """Return the letters that no run has sent, and count the others."""
        unsent = []
        for letter in chunk:
            if self.record.state.is_sent(letter):
                result.known += 1
            elif self.record.state.is_open(letter):
                result.unknown[letter.letter_id] = "An earlier run began with it, and what was stored then is no longer there."
            else:
                unsent.append(letter)
        return unsent

    # --- what a killed run left

    async def _look_up_open(self) -> int:
        """Find out which letters of killed runs were stored, and record it. Returns how many were."""
        open_letters = dict(self.record.state.open)
        if open_letters:
            await self.sleep(SETTLE_S)
        stored: dict[str, Mapping[str, Any]] = {}
        unreadable: set[str] = set()
        for topic in sorted({topic for ends in open_letters.values() for topic in ends}):
            if not await self._find_stored(topic, lowest_ends(topic, open_letters.values()), open_letters.keys(), stored):
                unreadable.add(topic)
        events: list[Mapping[str, Any]] = []
        for letter, ends in open_letters.items():
            if letter in stored:
                events.append({"event": "sent", "run": self.run, "letter": letter, "foundLater": True, **stored[letter]})
            elif unreadable.isdisjoint(ends):
                events.append({"event": "failed", "run": self.run, "letter": letter, "reason": "It was not stored."})
        self.record.write(events)
        return len(stored)

    async def _find_stored(
        self, topic: str, starts: Mapping[str, int], wanted: Collection[str], stored: dict[str, Mapping[str, Any]]
    ) -> bool:
        """Look for letters in a topic, from `starts` on. Returns whether everything that was stored since could be read."""
        try:
            firsts, lasts = await self.admin.offsets.at(topic, "first"), await self.admin.offsets.at(topic, "last")
        except NoRouteError:
            return False
        is_whole = True
        for queue, last in lasts.items():
            start = starts.get(_queue_key(queue.broker_name, queue.queue_id), 0)
            is_whole &= firsts[queue] <= start
            async for message in self.admin.messages.read_queue(queue, max(start, firsts[queue]), last):
                letter = message.properties.get(RESENT_LETTER, "")
                if letter in wanted:
                    place = _place(queue.broker_name, queue.queue_id, message.queue_offset)
                    stored[letter] = {"topic": topic, "id": message.message_id, **place}
        return is_whole

    # --- sending

    async def _send_chunk(self, chunk: Sequence[DeadLetter], result: ResendResult) -> None:
        ends: dict[str, dict[str, int]] = {}
        ready: list[tuple[DeadLetter, Message]] = []
        for letter in chunk:
            try:
                message = resent_message(letter, by=self.by, at=self.at)
                if message.topic not in ends:
                    offsets = await self.admin.offsets.at(message.topic, "last")
                    ends[message.topic] = {
                        _queue_key(queue.broker_name, queue.queue_id): offset for queue, offset in offsets.items()
                    }
                ready.append((letter, message))
            except (InvalidMessageError, NoRouteError) as error:
                result.failed[letter.letter_id] = str(error)
        if not ready:
            return
        begun = [letter.letter_id for letter, _ in ready]
        self.record.write([{"event": "begin", "run": self.run, "at": self.at, "by": self.by, "letters": begun, "ends": ends}])
        answers = await asyncio.gather(*(self.producer.send(message) for _, message in ready), return_exceptions=True)
        events: list[Mapping[str, Any]] = []
        for (letter, message), answer in zip(ready, answers, strict=True):
            named = {"run": self.run, "letter": letter.letter_id}
            if not isinstance(answer, BaseException):
                place = _place(answer.queue.broker_name, answer.queue.queue_id, answer.queue_offset)
                events.append({"event": "sent", **named, "topic": message.topic, "id": answer.message_id, **place})
                result.sent += 1
            elif isinstance(answer, SendFailedError) and answer.outcome_is_unknown:
                result.unknown[letter.letter_id] = str(answer)
            elif isinstance(answer, ClientError):
                events.append({"event": "failed", **named, "reason": str(answer)})
                result.failed[letter.letter_id] = str(answer)
            else:
                raise answer
        self.record.write(events)


async def _chunks(letters: Iterable[DeadLetter] | AsyncIterable[DeadLetter]) -> AsyncIterator[list[DeadLetter]]:
    if isinstance(letters, AsyncIterable):
        chunk: list[DeadLetter] = []
        async for letter in letters:
            chunk.append(letter)
            if len(chunk) == CHUNK_LETTERS:
                yield chunk
                chunk = []
        if chunk:
            yield chunk
        return
    rest = iter(letters)
    while chunk := await asyncio.to_thread(list, islice(rest, CHUNK_LETTERS)):  # reading blocks
        yield chunk


def resent_message(letter: DeadLetter, *, by: str, at: str) -> Message:
    """Make the message that a letter becomes. Raises InvalidMessageError if its topic is unknown or no broker would accept it."""
    if not letter.origin_topic:
        raise InvalidMessageError(f"Letter {letter.letter_id} does not tell the topic that it came from.")
    told = {
        RESENT_LETTER: letter.letter_id,
        RESENT_FROM: letter.topic,
        RESENT_MESSAGE: letter.message_id,
        RESENT_BY: by,
        RESENT_AT: at,
    }
    return Message(
        letter.origin_topic,
        letter.body,
        tag=letter.tag,
        keys=letter.keys,
        properties={**letter.user_properties, **told},
        sharding_key=letter.sharding_key,
    )


def lowest_ends(topic: str, recorded: Iterable[Ends]) -> dict[str, int]:
    """Return for each queue of a topic the lowest end that was recorded before a chunk."""
    lowest: dict[str, int] = {}
    for ends in recorded:
        for queue, offset in ends.get(topic, {}).items():
            lowest[queue] = min(lowest.get(queue, offset), offset)
    return lowest


def _place(broker_name: str, queue_id: int, offset: int) -> dict[str, Any]:
    return {"queue": _queue_key(broker_name, queue_id), "offset": offset}


def _queue_key(broker_name: str, queue_id: int) -> str:
    return f"{broker_name}:{queue_id}"
