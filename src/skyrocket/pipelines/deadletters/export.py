"""Writes dead letters to a file: JSON lines or Parquet, by its ending. The file appears when it is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from skyrocket.client.helpers.message_document import body_document
from skyrocket.pipelines.deadletters.letters import DeadLetter
from skyrocket.pipelines.errors import ArgumentError

ROW_GROUP_LETTERS: Final = 1_000


def letter_document(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as a JSON document. The field is `body` for UTF-8 text, and `bodyBase64` for other bytes."""
    document: dict[str, Any] = {
        "letter": letter.letter_id,
        "topic": letter.topic,
        "originTopic": letter.origin_topic,
        "brokerName": letter.broker_name,
        "queueId": letter.queue_id,
        "queueOffset": letter.queue_offset,
        "msgId": letter.message_id,
        "tags": letter.tag,
        "keys": list(letter.keys),
        "reconsumeTimes": letter.retries,
        "bornTimestamp": letter.born_ms,
        "storeTimestamp": letter.died_ms,
        "properties": dict(letter.properties),
    }
    return {**document, **body_document(letter.body)}


def export_letters(letters: Iterable[DeadLetter], path: Path) -> int:
    """Write letters to a new file, or replace it, and return how many there were. The ending chooses the format."""
    check_export(path)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        count = _WRITERS[path.suffix](letters, hidden)
        hidden.replace(path)
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        hidden.unlink(missing_ok=True)
    return count


def check_export(path: Path) -> None:
    """Raise ArgumentError if the file's ending names no format."""
    if path.suffix not in _WRITERS:
        raise ArgumentError(f"--export is '{path}'; its ending must be .jsonl for JSON lines or .parquet for Parquet.")


def _write_json_lines(letters: Iterable[DeadLetter], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for letter in letters:
            file.write(json.dumps(letter_document(letter), ensure_ascii=False) + "\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _write_parquet(letters: Iterable[DeadLetter], path: Path) -> int:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 — JSON lines need no Arrow
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    time = pa.timestamp("ms", "UTC")
    kinds: dict[str, tuple[Any, Callable[[DeadLetter], Any]]] = {
        "letter": (pa.string(), lambda one: one.letter_id),
        "topic": (pa.string(), lambda one: one.topic),
        "originTopic": (pa.string(), lambda one: one.origin_topic),
        "broker": (pa.string(), lambda one: one.broker_name),
        "queueId": (pa.int32(), lambda one: one.queue_id),
        "queueOffset": (pa.int64(), lambda one: one.queue_offset),
        "msgId": (pa.string(), lambda one: one.message_id),
        "tags": (pa.string(), lambda one: one.tag),
        "keys": (pa.list_(pa.string()), lambda one: list(one.keys)),
        "reconsumeTimes": (pa.int32(), lambda one: one.retries),
        "bornTimestamp": (time, lambda one: one.born_ms),
        "storeTimestamp": (time, lambda one: one.died_ms),
        "properties": (pa.map_(pa.string(), pa.string()), lambda one: list(one.properties.items())),
        "body": (pa.binary(), lambda one: one.body),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    count = 0
    with path.open("wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for group in _groups(letters):
                columns = [pa.array([value(one) for one in group], kind) for kind, value in kinds.values()]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                count += len(group)
        file.flush()
        os.fsync(file.fileno())
    return count


def _groups(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    rest = iter(letters)
    while group := list(islice(rest, ROW_GROUP_LETTERS)):
        yield group


_WRITERS: Final[dict[str, Callable[[Iterable[DeadLetter], Path], int]]] = {
    ".jsonl": _write_json_lines,
    ".parquet": _write_parquet,
}
