"""`replay_messages` in a real Spark, with our broker and with Apache's: each message once, each queue in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client.queues import Queue
from skyrocket.pipelines import archive_topics, replay_messages
from skyrocket.pipelines.errors import ArgumentError, ReplayError
from skyrocket.pipelines.progress import JobProgress
from skyrocket.pipelines.replay.job import ReplaySource, ReplaySummary
from skyrocket.pipelines.replay.origin import REPLAY
from skyrocket.pipelines.replay.selection import Selection
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import Row, contents, create, fill, origin_ids, places, rows


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


class Scene:
    """A topic with messages, its archive, and an empty topic to replay to."""

    def __init__(self, spark: SparkSession, cluster: Cluster, topic: str, folder: Path, count: int = 600) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        self.topic, self.again = topic, f"{topic}-again"
        self.named = {"nameserver": cluster.nameserver}
        create(cluster.nameserver, self.topic)
        create(cluster.nameserver, self.again)
        fill(cluster.nameserver, self.topic, cluster.broker_name, count)
        self.archive = folder / "archive"
        archive_topics(spark, [self.topic], self.archive, cluster=self.named)

    def replay(self, source: ReplaySource | None = None, **given: Any) -> ReplaySummary:
        given = {"to": self.again, "cluster": self.named, **given}
        return replay_messages(self.spark, source or ReplaySource("archive", str(self.archive)), **given)

    def arrived(self, topic: str | None = None, cluster: Cluster | None = None) -> list[Row]:
        """Return what is in the target, by an archive of it."""
        root = self.folder / f"arrived-{len(list(self.folder.iterdir()))}"
        where = {"nameserver": (cluster or self.cluster).nameserver}
        archive_topics(self.spark, [topic or self.again], root, cluster=where)
        return rows(root)


@pytest.fixture
def scene(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> Scene:
    return Scene(spark, cluster, topic, tmp_path)


@pytest.fixture
def our_scene(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path) -> Scene:
    return Scene(spark, ours, topic, tmp_path)


def test_archive_replay_archive_gives_equal_tables(scene: Scene):
    done = scene.replay()
    assert (done.selected, done.sent) == (600, 600)
    before, after = rows(scene.archive), scene.arrived()
    assert contents(after) == contents(before)
    assert origin_ids(after) == [row["msgId"] for row in before]
    assert [row["queueOffset"] for row in after] == [row["queueOffset"] for row in before]


def test_a_store_directory_is_replayed_without_its_broker(scene: Scene):
    done = scene.replay(ReplaySource("store", str(scene.cluster.store)), selection=Selection(topics=[scene.topic]))
    assert done.sent == 600
    assert contents(scene.arrived()) == contents(rows(scene.archive))


def test_a_topic_is_replayed_to_another_cluster_under_its_own_name(
    spark: SparkSession, ours: Cluster, apache: Cluster, topic: str, tmp_path: Path
):
    scene = Scene(spark, ours, topic, tmp_path)
    create(apache.nameserver, topic)
    target = {"nameserver": apache.nameserver}
    done = scene.replay(ReplaySource("topic", topic), to=None, to_cluster=target)
    assert done.sent == 600
    assert {counts.target for counts in done.queues.values()} == {
        Queue(topic, apache.broker_name, 0),
        Queue(topic, apache.broker_name, 1),
    }
    assert contents(scene.arrived(topic, apache)) == contents(rows(scene.archive))


def test_a_delta_table_is_replayed(our_scene: Scene, tmp_path: Path):
    pytest.importorskip("deltalake")
    archive_topics(our_scene.spark, [our_scene.topic], tmp_path / "delta", cluster=our_scene.named, table_format="delta")
    assert our_scene.replay(ReplaySource("archive", str(tmp_path / "delta"))).sent == 600
    assert contents(our_scene.arrived()) == contents(rows(our_scene.archive))


def numbers(found: list[Row]) -> list[int]:
    return sorted(int(row["body"].split(b" ", 1)[0]) for row in found)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(keys=["k7", "k12"]), [7, 12]),
        (Selection(tags=["paid"]), list(range(0, 600, 3))),
        (Selection(where="properties['color'] = 'red' AND queueOffset < 5"), [1, 2, 5, 7]),
        (Selection(tags=["paid"], keys=["k3"]), [3]),
        (Selection(from_ms=4_000_000_000_000), []),
    ],
    ids=["keys", "tags", "sql", "both", "time"],
)
def test_only_selected_messages_are_sent(our_scene: Scene, selection: Selection, expected: list[int]):
    assert our_scene.replay(selection=selection).sent == len(expected)
    if expected:
        assert numbers(our_scene.arrived()) == expected


def test_a_time_range_selects_by_store_time(our_scene: Scene):
    found = rows(our_scene.archive)
    middle = sorted(row["storeTimestamp"] for row in found)[300]
    ms = int(middle.timestamp() * 1000)
    before = our_scene.replay(selection=Selection(until_ms=ms), dry_run=True)
    after = our_scene.replay(selection=Selection(from_ms=ms), dry_run=True)
    assert before.selected + after.selected == 600
    assert after.selected == sum(row["storeTimestamp"] >= middle for row in found)


def test_a_second_run_with_its_progress_sends_only_what_is_new(our_scene: Scene, tmp_path: Path):
    progress = tmp_path / "progress"
    assert our_scene.replay(progress=progress).sent == 600
    assert our_scene.replay(progress=progress).sent == 0
    fill(our_scene.cluster.nameserver, our_scene.topic, our_scene.cluster.broker_name, 40, first=600)
    archive_topics(our_scene.spark, [our_scene.topic], our_scene.archive, cluster=our_scene.named)
    assert our_scene.replay(progress=progress).sent == 40
    assert contents(our_scene.arrived()) == contents(rows(our_scene.archive))


def test_a_topic_that_grows_meanwhile_is_replayed_up_to_where_it_ended_and_then_on(scene: Scene, tmp_path: Path):
    grown: list[int] = []

    def grow(progress: JobProgress) -> None:
        if progress.what == "replaying" and not grown:
            grown.append(progress.done)
            fill(scene.cluster.nameserver, scene.topic, scene.cluster.broker_name, 40, first=600)

    source, progress = ReplaySource("topic", scene.topic), tmp_path / "p"
    assert scene.replay(source, rate=400, progress=progress, on_progress=grow).sent == 600
    assert grown
    assert grown[0] < 600, "the replay had ended before the topic grew"
    assert scene.replay(source, progress=progress).sent == 40
    archive_topics(scene.spark, [scene.topic], scene.archive, cluster=scene.named)
    assert contents(scene.arrived()) == contents(rows(scene.archive))


def test_a_topic_that_is_replayed_to_itself_is_not_replayed_again_by_the_next_run(our_scene: Scene, tmp_path: Path):
    source = ReplaySource("topic", our_scene.topic)
    for sent in (600, 0):
        assert our_scene.replay(source, to=our_scene.topic, progress=tmp_path / "p").sent == sent
    assert places(our_scene.arrived(our_scene.topic)) == [
        (our_scene.topic, queue, offset) for queue in (0, 1) for offset in range(600)
    ]


def test_an_empty_topic_is_replayed_without_a_message(scene: Scene):
    create(scene.cluster.nameserver, f"{scene.topic}-empty")
    assert scene.replay(ReplaySource("topic", f"{scene.topic}-empty")).sent == 0


def test_a_dry_run_sends_nothing(our_scene: Scene):
    done = our_scene.replay(dry_run=True)
    assert (done.selected, done.sent) == (600, 0)
    assert [counts.target.queue_id for _, counts in sorted(done.queues.items())] == [0, 1]
    assert our_scene.arrived() == []


def test_a_replay_with_a_rate_sends_everything_in_order(our_scene: Scene):
    assert our_scene.replay(rate=3_000).sent == 600
    assert contents(our_scene.arrived()) == contents(rows(our_scene.archive))


def test_a_long_queue_gets_the_rate_that_short_ones_do_not_need(our_scene: Scene):
    """Compares two replays of as many messages at one rate: how long the messages took to arrive, by their store times."""
    chosen = ("queueOffset < 158", "queueId = 0 OR queueOffset < 16")  # 158 of each queue; 300 of one and 16 of the other
    even, skewed = (our_scene.replay(rate=100, selection=Selection(where=where)) for where in chosen)
    assert even.sent == skewed.sent == 316
    spans = {}
    for done in (even, skewed):
        times = [row["storeTimestamp"] for row in our_scene.arrived() if dict(row["properties"])[REPLAY] == done.replay_id]
        spans[done.replay_id] = (max(times) - min(times)).total_seconds()
    assert spans[skewed.replay_id] < 1.5 * spans[even.replay_id], "a task for each queue with half of the rate takes 1.9 times"


def test_wrong_arguments_are_one_sentence(our_scene: Scene, tmp_path: Path):
    with pytest.raises(ArgumentError, match=r"^The condition 'colour = 1' does not fit the columns of messages: .*colour"):
        our_scene.replay(selection=Selection(where="colour = 1"))
    with pytest.raises(ArgumentError, match=r"^Topic 'absent' does not exist at .*skyrocket topic create absent$"):
        our_scene.replay(to="absent")
    with pytest.raises(ArgumentError, match=r"^Topic 'absent' does not exist"):
        our_scene.replay(ReplaySource("topic", "absent"))
    with pytest.raises(ArgumentError, match="is not a directory"):
        our_scene.replay(ReplaySource("store", str(tmp_path / "none")))
    our_scene.replay(progress=tmp_path / "p", selection=Selection(keys=["k7"]))
    with pytest.raises(ReplayError, match="has the progress of another replay"):
        our_scene.replay(progress=tmp_path / "p")


@pytest.mark.usefixtures("keeps_spark")
def test_the_commands_write_reports(our_scene: Scene, tmp_path: Path):
    """With a rate, so that the replay takes long enough for some looks."""
    named, folder = ["-n", our_scene.cluster.nameserver], tmp_path / "by-command"
    archived, replayed = tmp_path / "archive.html", tmp_path / "replay.html"
    batches = ["--batch-messages", "200", "--report", str(archived)]
    done = CliRunner().invoke(app, ["pipeline", "archive", our_scene.topic, "--to", str(folder), *named, *batches])
    assert done.exit_code == 0, done.output
    sent = ["--archive", str(folder), "--to", our_scene.again, "--rate", "300", "--report", str(replayed)]
    done = CliRunner().invoke(app, ["pipeline", "replay", *named, *sent])
    assert done.exit_code == 0, done.output
    page = archived.read_text()
    assert "archived: " in page, "a point for each batch"
    assert '<td class="number">600</td>' in page
    page = replayed.read_text()
    assert "replayed: " in page
    assert "300/s" in page
    assert f"<td>{our_scene.again}</td>" in page
