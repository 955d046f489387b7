"""Verifies store directories on Spark: the logs of all of them by segments, then their queues, indexes and the rest.

Two jobs, however many stores there are. Queues and index can be judged only when it is known where a log ends and is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.progress import JobProgress, OnProgress
from skyrocket.pipelines.verify.parts_source import Part, run_parts
from skyrocket.pipelines.verify.result import VerifyResult
from skyrocket.store.errors import StoreError
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.offline.verify_parts import (
    LogPart,
    LogPartResult,
    LogState,
    PartResult,
    add_results,
    check_log_part,
    merge_log_parts,
    plan_log_parts,
    plan_other_parts,
    state_for,
)


def require_stores(paths: Sequence[str | Path]) -> list[str]:
    """Return absolute paths. Raise ArgumentError for a directory that is not a store."""
    found = []
    for path in paths:
        absolute = str(Path(path).absolute())
        try:
            with OfflineStore(absolute):
                found.append(absolute)
        except StoreError as error:
            raise ArgumentError(str(error)) from error
    return found


def check_stores(spark: SparkSession, paths: Sequence[str], on_progress: OnProgress) -> list[VerifyResult]:
    """Verify each store, and return a result for each."""
    log_parts = {path: plan_log_parts(path) for path in paths}
    plan: list[Part] = [("log", (path, part)) for path, parts in log_parts.items() for part in parts]
    answers = iter(run_parts(spark, plan, JobProgress("verifying logs", 0, len(plan), "segments"), on_progress))
    states: dict[str, LogState] = {}
    results: dict[str, list[PartResult]] = {}
    for path, parts in log_parts.items():
        checked = [msgspec.json.decode(next(answers), type=LogPartResult) for _ in parts]
        states[path], taken = _merge(path, parts, checked)
        results[path] = list(taken)
    others = {path: plan_other_parts(path) for path in paths}
    plan = [("other", (path, state_for(states[path], part), part)) for path, parts in others.items() for part in parts]
    answers = iter(run_parts(spark, plan, JobProgress("verifying queues and indexes", 0, len(plan), "parts"), on_progress))
    for path, other_parts in others.items():
        results[path] += [msgspec.json.decode(next(answers), type=PartResult) for _ in other_parts]
    return [_result(path, add_results(results[path]), len(log_parts[path]), states[path]) for path in paths]


def _merge(path: str, parts: Sequence[LogPart], checked: Sequence[LogPartResult]) -> tuple[LogState, list[LogPartResult]]:
    return merge_log_parts(checked, lambda number, lasts: check_log_part(path, parts[number], lasts))


def _result(path: str, total: PartResult, segments: int, state: LogState) -> VerifyResult:
    counts = {
        "segments": segments,
        "log bytes": state.end,
        "messages": total.messages,
        "queues": total.queues,
        "index entries": total.index_entries,
    }
    with OfflineStore(path) as store:
        counts["log bytes"] -= store.log.start
        is_open = store.is_open
    result = VerifyResult("store", path, counts)
    result.add_problems([str(finding) for finding in total.findings], total.more)
    if is_open:
        result.remarks.append("A broker has the store open, or was killed: what it has not finished is no problem.")
    return result
