"""The verify job: integrity of stores, of a replica against its master, of an archive against its topics.

    verify_stores(spark, ["/data/store-a", "/data/store-b"])
    verify_replica(spark, "/data/master", "/data/slave")
    verify_archive(spark, "/mnt/archive", cluster={"nameserver": "127.0.0.1:9876"})

Nothing is changed. Each returns results whose `is_sound` says whether there is a problem, and which name each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from skyrocket.pipelines.archive.archive_folder import keep_files
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.pipelines.verify.archive_check import check_archive
from skyrocket.pipelines.verify.parts_source import Part, run_parts
from skyrocket.pipelines.verify.replica_check import RangeComparison, describe_bounds, log_range, plan_ranges
from skyrocket.pipelines.verify.result import VerifyResult
from skyrocket.pipelines.verify.store_check import check_stores, require_stores
from skyrocket.store.offline.offline_store import OfflineStore


def verify_stores(
    spark: SparkSession, paths: Sequence[str | Path], *, on_progress: OnProgress = ignore_progress
) -> list[VerifyResult]:
    """Verify store directories: logs, queues, indexes, checkpoints, and what a node of a DLedger group has."""
    return check_stores(spark, require_stores(paths), on_progress)


def verify_replica(
    spark: SparkSession, master: str | Path, replica: str | Path, *, on_progress: OnProgress = ignore_progress
) -> VerifyResult:
    """Compare the log of a replica with its master's, byte by byte, as far as both have it."""
    paths = require_stores([master, replica])
    with OfflineStore(paths[0]) as store, OfflineStore(paths[1]) as copy:
        bounds = log_range(store), log_range(copy)
    ranges = plan_ranges(*bounds)
    whole = JobProgress("comparing", 0, sum(stop - start for start, stop in ranges), "bytes")
    plan: list[Part] = [("bytes", (*paths, *one)) for one in ranges]
    compared = [msgspec.json.decode(answer, type=RangeComparison) for answer in run_parts(spark, plan, whole, on_progress)]
    result = VerifyResult("replica", f"{paths[1]} against {paths[0]}")
    result.counts = {
        "compared bytes": sum(one.compared for one in compared),
        "differing bytes": sum(one.different for one in compared),
    }
    problems, result.remarks = describe_bounds(*bounds)
    result.add_problems(problems)
    for one in compared:
        result.add_problems(one.problems, one.more)
    return result


def verify_archive(
    spark: SparkSession,
    folder: str | Path,
    *,
    cluster: Mapping[str, str],
    topics: Sequence[str] = (),
    on_progress: OnProgress = ignore_progress,
) -> VerifyResult:
    """Compare an archive with its topics, or with some of them: each offset once, with equal bodies."""
    with keep_files(Path(folder).absolute()):
        return check_archive(spark, folder, topics, cluster, on_progress)
