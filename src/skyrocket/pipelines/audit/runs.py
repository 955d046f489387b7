"""Runs: consecutive sequence numbers of one producer in one queue, in the order of the queue. Pure, vectorised.

    offset     0    1    2    3    4    5    6    7          p1: 1–3 (offsets 0–3), 5–6 (5–6)
    message   p1·1 p2·1 p1·2 p1·3 p2·2 p1·5 p1·6 p2·2        p2: 1–2 (1–4), 2–2 (7–7)

A queue without gaps, repeats and disorder is one run for each producer, whatever its length: millions of messages become a few
rows. Runs of neighbouring parts of a queue join to the runs of the whole, so tasks can make them independently. A run also ends
where the audited group's committed offset lies, so that the messages of a run are all consumed or all waiting.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.client.producer.sequence import PRODUCER_ID, SEQUENCE
from skyrocket.pipelines.errors import PipelineError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RUNS_KEPT: Final = 200_000  # new runs after which a collector joins what it has
RUNS_MAX: Final = 2_000_000  # of one part of a queue after joining: its numbers have no order at all
_VALID_NUMBER: Final = "^[0-9]{1,18}$"


class TooManyRunsError(PipelineError):
    """A queue's numbers are so disordered that runs do not make them shorter."""


class RunColumns(NamedTuple):
    """Runs as columns of equal length, sorted by producer, then by offset."""

    producer: Ints  # index into the names of producers
    first: Ints
    last: Ints
    first_offset: Ints
    last_offset: Ints
    is_consumed: Bools

    def __len__(self) -> int:
        return len(self.first)


def _empty() -> RunColumns:
    none = np.zeros(0, np.int64)
    return RunColumns(none, none, none, none, none, np.zeros(0, np.bool_))


def join_runs(runs: RunColumns) -> RunColumns:
    """Sort runs by producer and offset, and join those that continue each other. A message is a run of one."""
    if not len(runs.first):
        return runs
    order = np.lexsort((runs.first_offset, runs.producer))
    runs = _take(runs, order)
    is_start = np.ones(len(runs.first), np.bool_)
    is_start[1:] = (
        (runs.producer[1:] != runs.producer[:-1])
        | (runs.first[1:] != runs.last[:-1] + 1)
        | (runs.is_consumed[1:] != runs.is_consumed[:-1])
    )
    starts = np.flatnonzero(is_start)
    ends = np.append(starts[1:], len(is_start)) - 1
    return RunColumns(
        runs.producer[starts],
        runs.first[starts],
        runs.last[ends],
        runs.first_offset[starts],
        runs.last_offset[ends],
        runs.is_consumed[starts],
    )


def _take(runs: RunColumns, order: npt.NDArray[np.intp]) -> RunColumns:
    columns: list[Any] = [column[order] for column in runs]
    return RunColumns(*columns)


class RunCollector:
    """Makes the runs of one part of a queue from its messages, batch by batch, in any order."""

    def __init__(self, consumed_before: int = 0) -> None:
        """`consumed_before` is the group's committed offset: messages before it are consumed."""
        self._consumed_before = consumed_before
        self._codes: dict[str, int] = {}
        self._parts: list[RunColumns] = []
        self._kept = 0  # runs since the last join
        self.unstamped = 0  # messages without a stamp, or with a malformed one

    @property
    def producers(self) -> list[str]:
        return list(self._codes)

    def add(self, properties: Any, offsets: Any) -> None:
        """Add messages: their properties (an Arrow map column) and their offsets in the queue."""
        self.add_stamps(pc.map_lookup(properties, PRODUCER_ID, "last"), pc.map_lookup(properties, SEQUENCE, "last"), offsets)

    def add_stamps(self, producers: Any, numbers: Any, offsets: Any) -> None:
        """Add messages by the texts of their stamps, as Arrow columns. Null: the message has none."""
        is_valid = pc.and_(pc.is_valid(producers), pc.fill_null(pc.match_substring_regex(numbers, _VALID_NUMBER), False))
        valid = is_valid.to_numpy(zero_copy_only=False)
        self.unstamped += len(valid) - int(valid.sum())
        if not valid.any():
            return
        named = producers.filter(is_valid).dictionary_encode()
        codes = np.array([self._codes.setdefault(name, len(self._codes)) for name in named.dictionary.to_pylist()], np.int64)
        values = numbers.filter(is_valid).cast(pa.int64()).to_numpy()
        self.add_numbers(codes[named.indices.to_numpy()], values, np.asarray(offsets, np.int64)[valid])

    def add_numbers(self, producers: Ints, numbers: Ints, offsets: Ints) -> None:
        """Add messages by the indexes of their producers, their numbers and their offsets."""
        messages = RunColumns(producers, numbers, numbers, offsets, offsets, offsets < self._consumed_before)
        joined = join_runs(messages)
        self._parts.append(joined)
        self._kept += len(joined)
        if self._kept > RUNS_KEPT:
            whole = self.runs()
            if len(whole) > RUNS_MAX:
                raise TooManyRunsError(
                    f"A part of a queue has more than {RUNS_MAX:,} runs of consecutive numbers. Audit a shorter time."
                )
            self._parts, self._kept = [whole], 0

    def runs(self) -> RunColumns:
        """Return the runs of all messages so far."""
        if not self._parts:
            return _empty()
        columns: list[Any] = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        return join_runs(RunColumns(*columns))
