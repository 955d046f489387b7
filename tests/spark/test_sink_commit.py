"""Exactly once: a batch is delivered whole and once, wherever its commit is interrupted, with our broker and Apache's."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.session.session import Session
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink import ledger as ledger_module
from skyrocket.spark.sink import ledger_entries
from skyrocket.spark.sink.commit import CommitError
from skyrocket.spark.sink.event_loop import open_session
from skyrocket.spark.sink.half_messages import EndResult, HalfMessages
from skyrocket.spark.sink.handles import Handles, count_rows
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.ledger_entries import BatchCommitted, BatchCommitting, NoBatch
from tests.spark.conftest import Cluster
from tests.spark.sink_deaths import Life, mortal_commit
from tests.spark.sink_scenes import abort, bodies, commit, count_in, exactly_once, stage, visible_bodies
from tests.support.apache_cluster import ApacheCluster
from tests.support.skyrocket_process import Skyrocket

ROWS = [f"row {number}" for number in range(5)]
EVERY = sorted(row.encode() for row in ROWS)


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return request.getfixturevalue(request.param)


async def stage_again(options: SinkOptions, topic: str, chance: random.Random, batch_id: int = 0) -> list[Handles]:
    """Stage the same rows as a replay does, in any order."""
    rows = list(ROWS)
    chance.shuffle(rows)
    half = chance.randrange(len(rows))
    found = [await stage(options, bodies(*rows[half:]), query=topic, batch_id=batch_id, partition=1)]
    if half:
        found.append(await stage(options, bodies(*rows[:half]), query=topic, batch_id=batch_id, partition=0))
    return [each for some in found for each in some]


async def test_rows_are_visible_only_after_the_commit(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    staged = await stage(options, bodies(*ROWS), query=topic)
    with pytest.raises(Exception, match="does not exist at"):
        await visible_bodies(cluster.nameserver, f"{topic}-none")
    before = await visible_bodies(cluster.nameserver, topic)
    await commit(options, staged, query=topic)
    assert (before, sorted(await visible_bodies(cluster.nameserver, topic))) == ([], EVERY)


async def test_aborted_rows_are_never_visible(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    await abort(options, await stage(options, bodies("gone"), query=topic), query=topic)
    await commit(options, await stage(options, bodies("kept"), query=topic), query=topic)
    assert await visible_bodies(cluster.nameserver, topic) == [b"kept"]


async def test_driver_may_die_before_any_step_of_a_commit(cluster: Cluster, topic: str):
    """Each life is one step longer, until one completes the commit. The replay has the rows in another order."""

    async def steps_of_the_first_whole_life() -> int:
        chance = random.Random(topic)
        for steps in range(200):
            name = f"{topic}-{steps}"
            options = exactly_once(cluster.nameserver, name)
            lived = await mortal_commit(options, await stage_again(options, name, chance), Life(steps), query=name)
            await commit(options, await stage_again(options, name, chance), query=name)
            found = sorted(await visible_bodies(cluster.nameserver, name))
            assert found == EVERY, f"a driver that died after {steps} steps left {found}"
            if lived:
                return steps
        raise AssertionError("no life was long enough")

    assert await steps_of_the_first_whole_life() >= 2 * 4 + len(ROWS)


async def test_driver_may_die_repeatedly(cluster: Cluster, topic: str):
    chance = random.Random(7)
    for number in range(12):
        name = f"{topic}-{number}"
        options = exactly_once(cluster.nameserver, name)
        lives = [chance.randrange(1, 18) for _ in range(chance.randrange(2, 5))]
        for steps in lives:
            await mortal_commit(options, await stage_again(options, name, chance), Life(steps), query=name)
        await commit(options, await stage_again(options, name, chance), query=name)
        found = sorted(await visible_bodies(cluster.nameserver, name))
        assert found == EVERY, f"lives of {lives} steps left {found}"


async def test_handles_of_a_large_batch_take_several_entries(ours: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ledger_entries, "PART_BYTES_MAX", 40)
    monkeypatch.setattr(ledger_module, "FIRST_WINDOW", 2)
    chance = random.Random(1)
    for steps in range(3, 40, 2):
        name = f"{topic}-{steps}"
        options = exactly_once(ours.nameserver, name)
        lived = await mortal_commit(options, await stage_again(options, name, chance), Life(steps), query=name)
        await commit(options, await stage_again(options, name, chance), query=name)
        assert sorted(await visible_bodies(ours.nameserver, name)) == EVERY, f"after {steps} steps"
        if lived:
            return
    raise AssertionError("no life was long enough")


async def test_committed_batch_is_not_committed_again(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    for batch_id in (0, 1, 1, 0, 2):
        staged = await stage(options, bodies(f"batch {batch_id}"), query=topic, batch_id=batch_id)
        await commit(options, staged, query=topic, batch_id=batch_id)
    assert sorted(await visible_bodies(cluster.nameserver, topic)) == [b"batch 0", b"batch 1", b"batch 2"]


async def test_queries_are_independent(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic)
    for query in ("one", "another", "one"):
        name = f"{topic} {query}"
        await commit(options, await stage(options, bodies(query), query=name), query=name)
    assert sorted(await visible_bodies(ours.nameserver, topic)) == [b"another", b"one"]


# --- ENDs whose outcome is not known


class Deaf(HalfMessages):
    """Every second END arrives without an answer; the others are lost."""

    rounds = 0

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> EndResult:
        self.rounds += 1
        if outcome is not Outcome.COMMIT or self.rounds > 2:
            return await super().end(handles, outcome)
        await super().end([each.select(each.rows % 2 == 0) for each in handles], outcome)
        return EndResult([], list(handles), failure="no answer came")


async def test_end_without_an_answer_is_searched_for_before_it_is_repeated(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skyrocket.spark.sink.writers.HalfMessages", Deaf)
    options = exactly_once(cluster.nameserver, topic)
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert sorted(await visible_bodies(cluster.nameserver, topic)) == EVERY


async def test_restart_completes_a_commit_that_failed(ours: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch):
    class Lost(HalfMessages):
        async def end(self, handles: Sequence[Handles], outcome: Outcome) -> EndResult:
            return EndResult([], list(handles), failure="127.0.0.1:1 did not answer in time.")

    options = exactly_once(ours.nameserver, topic, retryTimeout="300ms")
    staged = await stage(options, bodies(*ROWS), query=topic)
    with monkeypatch.context() as patched:
        patched.setattr("skyrocket.spark.sink.writers.HalfMessages", Lost)
        with pytest.raises(CommitError, match=r"Restart the query to complete it\. 5 rows"):
            await commit(options, staged, query=topic)
    await abort(options, staged, query=topic)  # Spark does this next
    assert await visible_bodies(ours.nameserver, topic) == []
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert sorted(await visible_bodies(ours.nameserver, topic)) == EVERY


async def test_half_messages_of_the_replay_replace_lost_ones(ours: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.spark.sink.commit.PAUSE_FIRST_MS", 1)
    options = exactly_once(ours.nameserver, topic)
    first = await stage(options, bodies(*ROWS), query=topic)
    for steps in (8,):  # two of five rows are committed
        assert not await mortal_commit(options, first, Life(steps), query=topic)
    done = sorted(await visible_bodies(ours.nameserver, topic))
    real = HalfMessages.end
    gone = {offset for each in first for offset in each.physical_offsets.tolist()}

    async def without_first(self: HalfMessages, handles: Sequence[Handles], outcome: Outcome) -> EndResult:
        if any(offset in gone for each in handles for offset in each.physical_offsets.tolist()):
            return EndResult(list(handles), [], refusal="There is no half message at 17 in the log.")
        return await real(self, handles, outcome)

    monkeypatch.setattr(HalfMessages, "end", without_first)
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert 0 < len(done) < len(ROWS), done
    assert sorted(await visible_bodies(ours.nameserver, topic)) == EVERY


async def test_repeated_end_delivers_twice(cluster: Cluster, topic: str):
    """This is why the sink searches the queues first. If brokers ever ignore a repeated END, the search can go."""
    options = exactly_once(cluster.nameserver, topic)
    staged = await stage(options, bodies("once"), query=topic)
    async with open_session(options) as session:
        half_messages = HalfMessages(session, options)
        await half_messages.fetch_queue_ends(each.queue for each in staged)  # the nameserver knows the new topic by now
        for _ in range(2):
            ended = await half_messages.end(staged, Outcome.COMMIT)
            assert (count_rows(ended.not_done), count_rows(ended.unknown)) == (0, 0), ended
    assert await visible_bodies(cluster.nameserver, topic) == [b"once", b"once"]


# --- batches that take longer than brokers wait

IMPATIENT = {"transactionCheckInterval": 1_000, "transactionTimeOut": 500, "transactionCheckMax": 2}
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def impatient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The nameserver of a broker that checks half messages every second, and gives up after two checks."""
    if request.param == "ours":
        with Skyrocket(tmp_path, IMPATIENT) as process:
            yield process.nameserver
    else:
        with ApacheCluster(tmp_path) as cluster:
            cluster.broker(tmp_path / "store", {"mappedFileSizeCommitLog": 16_777_216, **IMPATIENT})
            yield cluster.nameserver


async def test_batch_may_take_longer_than_the_broker_checks_it(impatient: str, topic: str):
    """The broker finds no producer to check with, stores the half messages again, and gives up. They can still be committed."""
    options = exactly_once(impatient, topic)
    staged = await stage(options, bodies(*ROWS), query=topic)
    deadline = time.monotonic() + 60
    while (given_up := await count_in(impatient, GIVEN_UP)) < len(ROWS):
        assert time.monotonic() < deadline, f"only {given_up} were given up"
        await asyncio.sleep(0.3)
    assert await visible_bodies(impatient, topic) == [], "a broker commits nothing on its own"
    await commit(options, staged, query=topic)
    await asyncio.sleep(2.5)  # two more rounds of checks
    assert sorted(await visible_bodies(impatient, topic)) == EVERY


# --- the ledger


async def test_ledger_finds_the_last_entry_of_a_query_among_many(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    staged = await stage(options, bodies(*ROWS))
    begun = BatchCommitting(3, {each.queue: 7 for each in staged}, staged)
    async with open_session(options) as session:
        ledger = SinkLedger(session, options)
        assert await ledger.read_state("mine") == NoBatch()
        await ledger.write_committing("mine", begun)
        for number in range(300):
            await ledger.write_committed(f"other {number % 7}", number)
        state = await ledger.read_state("mine")
        assert isinstance(state, BatchCommitting)
        assert (state.batch_id, dict(state.starts)) == (3, dict(begun.starts))
        assert [each.rows.tolist() for each in state.handles] == [each.rows.tolist() for each in staged]
        await ledger.write_committed("mine", 3)
        assert await ledger.read_state("mine") == BatchCommitted(3)
        assert await ledger.read_state("other 6") == BatchCommitted(max(number for number in range(300) if number % 7 == 6))
        assert await ledger.read_state("nobody") == NoBatch()


async def test_ledger_reads_all_its_queues(ours: Cluster, topic: str):
    """An administrator may create the ledger with several queues, or add queues later."""
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    staged = await stage(options, bodies("x"))
    async with open_session(options) as session:
        ledger = SinkLedger(session, options)
        await ledger.write_committing("mine", BatchCommitting(0, {each.queue: 0 for each in staged}, staged))
        await _more_queues(session, f"{topic}-ledger")
        for batch_id in range(6):
            await ledger.write_committed(f"query {batch_id}", batch_id)
        assert isinstance(await ledger.read_state("mine"), BatchCommitting)
        assert [await ledger.read_state(f"query {number}") for number in range(6)] == [
            BatchCommitted(number) for number in range(6)
        ]


async def _more_queues(session: Session, topic: str) -> None:
    from skyrocket.client.admin.brokers import Brokers
    from skyrocket.client.admin.topics import TopicAdmin

    await TopicAdmin(Brokers(session)).create(topic, queues=5)
    session.routes.forget(topic)
