"""`verify_stores`, `verify_replica` and `verify_archive` in a real Spark: they name what is wrong, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from skyrocket.pipelines import archive_topics, verify_archive, verify_replica, verify_stores
from skyrocket.pipelines.archive.archive_folder import RECORDS_KEPT
from skyrocket.pipelines.archive.batch_record import LostMessages, append_record
from skyrocket.pipelines.archive.job import open_table
from skyrocket.pipelines.archive.reading import archive_files
from skyrocket.store.offline.verify import VerifyCounts, verify
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import create, fill
from tests.support.stores.ledgers import golden_ledger
from tests.support.stores.sample_stores import flip, sample_record, sample_store, write_store


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


# --- stores


def test_several_stores_are_verified_at_once_and_each_finding_is_named(spark: SparkSession, tmp_path: Path):
    sound, broken = sample_store(tmp_path / "sound"), sample_store(tmp_path / "broken")
    flip(sorted((broken / "commitlog").iterdir())[1], 700)
    flip(next(path for path in sorted((broken / "index").iterdir())), 600)
    first, second = verify_stores(spark, [sound, broken])
    counts = VerifyCounts()
    assert (list(verify(sound, verified=counts)), first.is_sound) == ([], True)
    assert (first.counts["messages"], first.counts["queues"]) == (counts.messages, counts.queues)
    assert first.counts["segments"] > 3
    assert second.problems == [str(finding) for finding in sorted(verify(broken))]
    assert not second.is_sound


def test_the_store_of_a_dledger_node_of_apache_is_sound_until_a_bit_flips(spark: SparkSession, tmp_path: Path):
    root = golden_ledger(tmp_path)
    (sound,) = verify_stores(spark, [root])
    assert (sound.problems, sound.counts["messages"] > 0) == ([], True)
    data = next(path for path in sorted(root.rglob("dledger-*/data/*")) if path.stat().st_size)
    flip(data, 300)
    (broken,) = verify_stores(spark, [root])
    assert broken.problems == [str(finding) for finding in sorted(verify(root))] != []


# --- replicas


def make_pair(folder: Path, count: int = 150) -> tuple[Path, Path]:
    master = sample_store(folder / "master", count)
    shutil.copytree(master, folder / "replica")
    return master, folder / "replica"


def test_a_replica_with_equal_bytes_is_sound(spark: SparkSession, tmp_path: Path):
    master, replica = make_pair(tmp_path)
    result = verify_replica(spark, master, replica)
    assert (result.is_sound, result.remarks, result.counts["differing bytes"]) == (True, [], 0)
    assert result.counts["compared bytes"] > 3 * 16 * 1024


def test_a_differing_byte_and_a_lost_file_are_named(spark: SparkSession, tmp_path: Path):
    master, replica = make_pair(tmp_path)
    files = sorted((replica / "commitlog").iterdir())
    flip(files[1], 300)
    files[2].unlink()
    result = verify_replica(spark, master, replica)
    at = int(files[1].name) + 300
    assert result.problems[0].startswith(f"Log offsets {at} to {at} differ, in the message at offset ")
    assert (
        result.problems[1] == f"Log offsets {int(files[2].name)} to {int(files[3].name) - 1}: the replica has no file with them."
    )
    assert len(result.problems) == 2


def test_a_replica_may_be_behind_but_not_ahead(spark: SparkSession, tmp_path: Path):
    longer, shorter = tmp_path / "longer", tmp_path / "shorter"
    write_store(longer, map(sample_record, range(100)))
    write_store(shorter, map(sample_record, range(60)))
    behind = verify_replica(spark, longer, shorter)
    assert behind.is_sound
    assert behind.remarks[0].startswith("The replica is behind by ")
    ahead = verify_replica(spark, shorter, longer)
    assert "it has messages that the master does not have" in ahead.problems[0]


# --- archives


def test_an_archive_is_compared_with_its_topic(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path):
    named, root = {"nameserver": cluster.nameserver}, tmp_path / "a"
    create(cluster.nameserver, topic)
    fill(cluster.nameserver, topic, cluster.broker_name, 200)
    archive_topics(spark, [topic], root, cluster=named)
    fill(cluster.nameserver, topic, cluster.broker_name, 10, first=200)
    result = verify_archive(spark, root, cluster=named)
    assert (result.is_sound, result.problems) == (True, [])
    assert result.counts == {"messages": 200, "queues": 2, "compared with the topic": 200}
    assert result.remarks == ["10 messages of the topic are newer than the archive."]

    path = next(path for path in archive_files(root) if "-0-" in Path(path).name)
    change_rows(path, body_of=7, without=9)
    problems = verify_archive(spark, root, cluster=named).problems
    assert len(problems) == 3
    assert problems[0].endswith("offset 9 is missing.")
    assert problems[1].startswith(f"Offset 7 of {topic}, queue 0 at {cluster.broker_name}: the bodies' checksums are ")
    assert problems[2] == f"Offset 9 of {topic}, queue 0 at {cluster.broker_name} is in the topic and not in the archive."


@pytest.mark.parametrize("which", ["the first file", "all files"])
def test_deleted_files_are_missing_messages(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, which: str):
    """What is left in the archive does not decide what should be there."""
    named, root = {"nameserver": ours.nameserver}, tmp_path / "a"
    create(ours.nameserver, topic)
    for first in (0, 40):
        fill(ours.nameserver, topic, ours.broker_name, 40, first=first)
        archive_topics(spark, [topic], root, cluster=named)
    files = sorted(archive_files(root))
    for path in files if which == "all files" else [path for path in files if "-0-00000000000000000000-" in path]:
        Path(path).unlink()
    result = verify_archive(spark, root, cluster=named)
    queue = f"queue 0 of {topic} at {ours.broker_name}"
    missing = [problem for problem in result.problems if problem.endswith("are missing.")]
    expected = [f"{queue}: offsets 0 to {39 if which == 'all files' else 19} are missing."]
    if which == "all files":
        expected.append(f"{queue.replace('queue 0', 'queue 1')}: offsets 0 to 39 are missing.")
    assert (missing, result.remarks) == (expected, [])


def test_a_gap_that_was_accepted_stays_a_remark(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    """Records of old batches are deleted; what was lost before them is still known."""
    named, root = {"nameserver": ours.nameserver}, tmp_path / "a"
    create(ours.nameserver, topic, 1)
    fill(ours.nameserver, topic, ours.broker_name, 10, 1)
    archive_topics(spark, [topic], root, cluster=named)
    forget_messages(root, topic, ours.broker_name, archived=4)
    for first in range(10, 10 + RECORDS_KEPT + 1):
        fill(ours.nameserver, topic, ours.broker_name, 1, 1, first)
        archive_topics(spark, [topic], root, cluster=named)
    result = verify_archive(spark, root, cluster=named)
    queue = f"queue 0 of {topic} at {ours.broker_name}"
    assert f"{queue}: offsets 4 to 9 were deleted before they were archived (--skip-missing)." in result.remarks
    assert [problem for problem in result.problems if "missing" in problem] == []


def forget_messages(root: Path, topic: str, broker: str, archived: int) -> None:
    """Make an archive what it would be if messages from offset `archived` on had been deleted before a run came."""
    table = open_table(root)
    last = table.last()
    assert last is not None
    count = 0
    for path in archive_files(root):
        found = pq.ParquetFile(path).read()
        count += found.num_rows
        pq.write_table(found.filter(pc.less(found["queueOffset"], archived)), path)
    lost = LostMessages(topic=topic, broker=broker, queue_id=0, start=archived, stop=count)
    table.folder.write_record(append_record(last.archive_id, 2, last.progress, [], [lost], before=last))


def change_rows(path: str, body_of: int, without: int) -> None:
    """Change one body and leave one row out, as a faulty disk or a person could."""
    table = pq.ParquetFile(path).read()
    kept = [row for row in table.to_pylist() if row["queueOffset"] != without]
    for row in kept:
        if row["queueOffset"] == body_of:
            row["body"] += b"!"
    pq.write_table(pa.Table.from_pylist(kept, schema=table.schema), path)
