"""`skyrocket store`: verify, dump or repair a store directory, ours or Apache's. Only `repair` changes the directory."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from skyrocket.cli.files.store_repair import repair
from skyrocket.cli.output import to_json
from skyrocket.cli.progress_bar import is_terminal, show_progress
from skyrocket.pipelines.progress import JobProgress, watching
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.message.properties import KEY_SEPARATOR, KEYS, TAGS
from skyrocket.store.errors import StoreError
from skyrocket.store.log.scan import DamagedRange, FoundRecord
from skyrocket.store.offline.offline_index import IndexSizes
from skyrocket.store.offline.offline_store import OfflineStore, message_id, properties_of
from skyrocket.store.offline.verify import VerifyCounts
from skyrocket.store.offline.verify import verify as findings_of
from skyrocket.store.queues.consume_queues import QueueKey

app = typer.Typer()
app.command()(repair)

SOMETHING_WRONG = 1
NO_STORE = 2
_TOPICS_SHOWN_MAX = 20

_FROM_HELP = (
    "Where to start: 123456 (a physical offset of the log), queue:42 (a queue offset; needs --topic and --queue), "
    "time:1794725517342 (milliseconds since 1970), or 2026-11-15T06:51:57 (a time, local unless it has a zone)."
)

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The store: the directory that contains 'commitlog' or 'dledger-n0'.")
]
CommitLogDirectory = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The directory of the log, if the broker has one in storePathCommitLog.")
]


@app.command()
def verify(
    directory: Directory,
    index_slots: Annotated[int, typer.Option(help="Slots of an index file, if the file does not show it.")] = 0,
    index_entries: Annotated[int, typer.Option(help="Entries of an index file, if the file does not show it.")] = 0,
    commit_log: CommitLogDirectory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each finding, and one for the sum.")] = False,
) -> None:
    """Check CRCs and positions in the log, and the consume queues and index against it.

    Print one line for each finding. The exit code is 1 when there are findings.
    """
    verified = VerifyCounts()
    sizes = IndexSizes(index_slots, index_entries) if index_slots and index_entries else None
    count = 0
    found = findings_of(directory, commit_log=commit_log, index_sizes=sizes, verified=verified)
    try:
        with (
            show_progress("verifying", is_shown=is_terminal()) as on_progress,
            watching(lambda: JobProgress("verifying", verified.messages), on_progress),
        ):
            for finding in found:
                count += 1
                typer.echo(to_json(finding._asdict()) if as_json else str(finding))
    except StoreError as error:
        _refuse(error)
    if as_json:
        typer.echo(to_json({"findings": count, **asdict(verified)}))
        raise typer.Exit(SOMETHING_WRONG if count else 0)
    checked = f"{verified.messages} messages, {verified.queues} queues, {verified.index_entries} index entries"
    if count:
        typer.echo(f"{count} findings in {directory}; {checked} were checked.", err=True)
        raise typer.Exit(SOMETHING_WRONG)
    typer.echo(f"Everything in {directory} fits together: {checked}.")


@app.command()
def dump(
    directory: Directory,
    topic: Annotated[str | None, typer.Option(help="Only messages of this topic.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Only messages of this queue; needs --topic.")] = None,
    begin: Annotated[str | None, typer.Option("--from", metavar="X", help=_FROM_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    body: Annotated[bool, typer.Option("--body", help="Print the stored bodies too; as base64 with --json.")] = False,
    limit: Annotated[int | None, typer.Option(min=0, help="At most this many messages.")] = None,
    commit_log: CommitLogDirectory = None,
) -> None:
    """Print messages in order of arrival, or those of one queue in the queue's order.

    With --json: topic, queueId, queueOffset, physicalOffset, msgId, tags, keys, properties, storeTimestamp, bornTimestamp,
    bodyLength, bodyCrc (CRC-32 of the stored body, all 32 bits) and, with --body, body.
    """
    if queue is not None and topic is None:
        raise typer.BadParameter(f"--queue {queue} needs --topic, because every topic has a queue with that number.")
    start = _start(begin)
    if start.queue_offset is not None and queue is None:
        raise typer.BadParameter(f"--from {begin} is a queue offset. Give the queue with --topic and --queue.")
    show: Callable[[FoundRecord, bool], str] = _as_json if as_json else _as_text
    try:
        with OfflineStore(directory, commit_log=commit_log) as store:
            count = 0
            for found in islice(_select_records(store, topic, queue, start), limit):
                typer.echo(show(found, body))
                count += 1
            if count == 0 and topic is not None:
                _check_topic(store, directory, topic, queue)
    except StoreError as error:
        _refuse(error)


def _check_topic(store: OfflineStore, directory: Path, topic: str, queue: int | None) -> None:
    """Exit with an error when the store has no such topic or queue. One that has no messages from a start on is no error."""
    known = [QueueKey(each.topic, each.queue_id) for each in store.queues()]
    if any(key.topic == topic and queue in (None, key.queue_id) for key in known):
        return
    topics = sorted({key.topic for key in known})
    if topic in topics:
        queues = ", ".join(str(key.queue_id) for key in sorted(known) if key.topic == topic)
        typer.echo(f"Topic '{topic}' has no queue {queue} in {directory}. Its queues are: {queues}.", err=True)
    else:
        listed = ", ".join(topics[:_TOPICS_SHOWN_MAX]) + (", …" if len(topics) > _TOPICS_SHOWN_MAX else "")
        typer.echo(f"There is no topic '{topic}' in {directory}. Its topics are: {listed or 'none'}.", err=True)
    raise typer.Exit(SOMETHING_WRONG)


class _Start(NamedTuple):
    """The start of a dump. At most one field is set; with none, the dump starts at the beginning."""

    physical_offset: int | None = None
    queue_offset: int | None = None
    time_ms: int | None = None


def _start(text: str | None) -> _Start:
    if text is None:
        return _Start()
    kind, _, rest = text.partition(":")
    if _is_number(text):
        return _Start(physical_offset=int(text))
    if kind == "queue" and _is_number(rest):
        return _Start(queue_offset=int(rest))
    if kind == "time" and _is_number(rest):
        return _Start(time_ms=int(rest))
    try:
        moment = datetime.fromisoformat(rest if kind == "time" else text)
        return _Start(time_ms=round(moment.timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        message = f"--from {text!r} is not an offset (123456), queue:42, time:1794725517342, or a time (2026-11-15T06:51:57)."
        raise typer.BadParameter(message) from error


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19


def _select_records(store: OfflineStore, topic: str | None, queue: int | None, start: _Start) -> Iterator[FoundRecord]:
    if topic is not None and queue is not None:
        for found in _queue_records(store, topic, queue, start):
            if found.offset >= (start.physical_offset or 0):
                yield found
        return
    if start.time_ms is not None:
        records = store.records_since(start.time_ms, on_damage=_warn_of_damage)
    else:
        records = store.records(start.physical_offset or 0, on_damage=_warn_of_damage)
    for found in records:
        if topic is None or found.record.topic == topic:
            yield found


def _queue_records(store: OfflineStore, topic: str, queue: int, start: _Start) -> Iterator[FoundRecord]:
    offset = start.queue_offset or 0
    if start.time_ms is not None:
        offset = store.queue_offset_since(topic, queue, start.time_ms)
    return store.queue_records(topic, queue, offset, on_damage=_warn_of_damage)


def _warn_of_damage(damaged: DamagedRange) -> None:
    typer.echo(f"{damaged.size} bytes of the log at {damaged.offset} cannot be read. They are skipped.", err=True)


def _refuse(error: StoreError) -> None:
    typer.echo(str(error), err=True)
    raise typer.Exit(NO_STORE) from error


def _as_json(found: FoundRecord, with_body: bool) -> str:
    record = found.record
    properties = properties_of(record)
    shown: dict[str, Any] = {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "physicalOffset": found.offset,
        "msgId": message_id(record, properties),
        "tags": properties.get(TAGS),
        "keys": _keys(properties),
        "properties": properties,
        "storeTimestamp": record.store_timestamp,
        "bornTimestamp": record.born_timestamp,
        "bodyLength": len(record.body),
        "bodyCrc": crc32(record.body),
    }
    if with_body:
        shown["body"] = base64.b64encode(record.body).decode()
    return msgspec.json.encode(shown).decode()


def _as_text(found: FoundRecord, with_body: bool) -> str:
    record = found.record
    properties = properties_of(record)
    stored = _time_text(record.store_timestamp)
    parts = [f"{found.offset:>12}  {stored}  {record.topic}/{record.queue_id} {record.queue_offset}"]
    parts.append(message_id(record, properties))
    if tags := properties.get(TAGS):
        parts.append(f"tags={tags}")
    if keys := _keys(properties):
        parts.append(f"keys={','.join(keys)}")
    parts.append(f"{len(record.body)} bytes")
    if with_body:
        parts.append(repr(str(record.body, "utf-8", "backslashreplace")))
    return "  ".join(parts)


def _keys(properties: dict[str, str]) -> list[str]:
    return [key for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key]


def _time_text(timestamp: int) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}.{timestamp % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp} ms"
