"""Exactly once: a batch is delivered whole, and once, wherever its commit is broken off. Against our broker and Apache's."""

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
from skyrocket.spark.sink import ledger as ledger_room
from skyrocket.spark.sink import ledger_entry
from skyrocket.spark.sink.commit import CommitError
from skyrocket.spark.sink.event_loop import opened_session
from skyrocket.spark.sink.half_messages import ClusterHalves, Ended, Ending
from skyrocket.spark.sink.handles import Handles, count_of
from skyrocket.spark.sink.ledger import Ledger
from skyrocket.spark.sink.ledger_entry import Committed, Committing, Nothing
from tests.spark.conftest import Cluster
from tests.spark.sink_deaths import Life, mortal_commit
from tests.spark.sink_scenes import abort, bodies, commit, count_in, exactly_once, seen, stage
from tests.support.apache_cluster import ApacheCluster
from tests.support.skyrocket_process import Skyrocket

ROWS = [f"row {number}" for number in range(5)]
EVERY = sorted(row.encode() for row in ROWS)


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return request.getfixturevalue(request.param)


async def staged_anew(options: SinkOptions, topic: str, chance: random.Random, batch_id: int = 0) -> list[Handles]:
    """As a replay stages them: the same rows, in whatever order they come."""
    rows = list(ROWS)
    chance.shuffle(rows)
    half = chance.randrange(len(rows))
    found = [await stage(options, bodies(*rows[half:]), query=topic, batch_id=batch_id, partition=1)]
    if half:
        found.append(await stage(options, bodies(*rows[:half]), query=topic, batch_id=batch_id, partition=0))
    return [each for some in found for each in some]


async def test_nothing_is_seen_before_the_commit_and_everything_after(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    staged = await stage(options, bodies(*ROWS), query=topic)
    with pytest.raises(Exception, match="does not exist at"):
        await seen(cluster.nameserver, f"{topic}-none")
    before = await seen(cluster.nameserver, topic)
    await commit(options, staged, query=topic)
    assert (before, sorted(await seen(cluster.nameserver, topic))) == ([], EVERY)


async def test_what_is_aborted_is_never_seen(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    await abort(options, await stage(options, bodies("gone"), query=topic), query=topic)
    await commit(options, await stage(options, bodies("kept"), query=topic), query=topic)
    assert await seen(cluster.nameserver, topic) == [b"kept"]


async def test_a_driver_may_die_before_any_step_of_a_commit(cluster: Cluster, topic: str):
    """Each life is one step longer, until one is long enough. The replay then has rows in another order."""

    async def steps_of_the_first_whole_life() -> int:
        chance = random.Random(topic)
        for steps in range(200):
            name = f"{topic}-{steps}"
            options = exactly_once(cluster.nameserver, name)
            lived = await mortal_commit(options, await staged_anew(options, name, chance), Life(steps), query=name)
            await commit(options, await staged_anew(options, name, chance), query=name)
            found = sorted(await seen(cluster.nameserver, name))
            assert found == EVERY, f"a driver that died after {steps} steps left {found}"
            if lived:
                return steps
        raise AssertionError("no life was long enough")

    assert await steps_of_the_first_whole_life() >= 2 * 4 + len(ROWS)


async def test_a_driver_may_die_again_and_again(cluster: Cluster, topic: str):
    chance = random.Random(7)
    for number in range(12):
        name = f"{topic}-{number}"
        options = exactly_once(cluster.nameserver, name)
        lives = [chance.randrange(1, 18) for _ in range(chance.randrange(2, 5))]
        for steps in lives:
            await mortal_commit(options, await staged_anew(options, name, chance), Life(steps), query=name)
        await commit(options, await staged_anew(options, name, chance), query=name)
        found = sorted(await seen(cluster.nameserver, name))
        assert found == EVERY, f"lives of {lives} steps left {found}"


async def test_the_handles_of_a_large_batch_take_several_entries(ours: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ledger_entry, "PART_BYTES_MAX", 40)
    monkeypatch.setattr(ledger_room, "FIRST_WINDOW", 2)
    chance = random.Random(1)
    for steps in range(3, 40, 2):
        name = f"{topic}-{steps}"
        options = exactly_once(ours.nameserver, name)
        lived = await mortal_commit(options, await staged_anew(options, name, chance), Life(steps), query=name)
        await commit(options, await staged_anew(options, name, chance), query=name)
        assert sorted(await seen(ours.nameserver, name)) == EVERY, f"after {steps} steps"
        if lived:
            return
    raise AssertionError("no life was long enough")


async def test_a_batch_that_is_committed_is_not_committed_again(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    for batch_id in (0, 1, 1, 0, 2):
        staged = await stage(options, bodies(f"batch {batch_id}"), query=topic, batch_id=batch_id)
        await commit(options, staged, query=topic, batch_id=batch_id)
    assert sorted(await seen(cluster.nameserver, topic)) == [b"batch 0", b"batch 1", b"batch 2"]


async def test_queries_know_nothing_of_one_another(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic)
    for query in ("one", "another", "one"):
        name = f"{topic} {query}"
        await commit(options, await stage(options, bodies(query), query=name), query=name)
    assert sorted(await seen(ours.nameserver, topic)) == [b"another", b"one"]


# --- ENDs whose outcome is not known


class Deaf(Ending):
    """Every second END gets through and its answer does not come; the others are lost on their way."""

    rounds = 0

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended:
        self.rounds += 1
        if outcome is not Outcome.COMMIT or self.rounds > 2:
            return await super().end(handles, outcome)
        await super().end([each.chosen(each.rows % 2 == 0) for each in handles], outcome)
        return Ended([], list(handles), trouble="no answer came")


async def test_an_end_without_an_answer_is_looked_for_before_it_is_sent_again(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skyrocket.spark.sink.half_messages.Ending", Deaf)
    options = exactly_once(cluster.nameserver, topic)
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert sorted(await seen(cluster.nameserver, topic)) == EVERY


async def test_a_commit_that_cannot_be_finished_says_so_and_a_restart_finishes_it(
    ours: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    class Lost(Ending):
        async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended:
            return Ended([], list(handles), trouble="127.0.0.1:1 did not answer in time.")

    options = exactly_once(ours.nameserver, topic, retryTimeout="300ms")
    staged = await stage(options, bodies(*ROWS), query=topic)
    with monkeypatch.context() as patched:
        patched.setattr("skyrocket.spark.sink.half_messages.Ending", Lost)
        with pytest.raises(CommitError, match=r"a restart of the query will finish it: 5 rows"):
            await commit(options, staged, query=topic)
    await abort(options, staged, query=topic)  # what Spark does next
    assert await seen(ours.nameserver, topic) == []
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert sorted(await seen(ours.nameserver, topic)) == EVERY


async def test_half_messages_that_a_broker_no_longer_has_are_replaced_by_those_of_the_replay(
    ours: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skyrocket.spark.sink.commit.PAUSE_FIRST_MS", 1)
    options = exactly_once(ours.nameserver, topic)
    first = await stage(options, bodies(*ROWS), query=topic)
    for steps in (8,):  # two of five rows are committed
        assert not await mortal_commit(options, first, Life(steps), query=topic)
    done = sorted(await seen(ours.nameserver, topic))
    real = Ending.end
    gone = {offset for each in first for offset in each.physical_offsets.tolist()}

    async def without_first(self: Ending, handles: Sequence[Handles], outcome: Outcome) -> Ended:
        if any(offset in gone for each in handles for offset in each.physical_offsets.tolist()):
            return Ended(list(handles), [], refusal="There is no half message at 17 in the log.")
        return await real(self, handles, outcome)

    monkeypatch.setattr(Ending, "end", without_first)
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert 0 < len(done) < len(ROWS), done
    assert sorted(await seen(ours.nameserver, topic)) == EVERY


async def test_an_end_that_is_sent_twice_delivers_twice(cluster: Cluster, topic: str):
    """Why this sink never does it: the day that brokers remember their ends, it need no longer look."""
    options = exactly_once(cluster.nameserver, topic)
    staged = await stage(options, bodies("once"), query=topic)
    async with opened_session(options) as session:
        halves = ClusterHalves(session, options)
        await halves.ends_of_queues(each.queue for each in staged)  # the nameserver knows the new topic by now
        for _ in range(2):
            ended = await halves.end(staged, Outcome.COMMIT)
            assert (count_of(ended.not_done), count_of(ended.unknown)) == (0, 0), ended
    assert await seen(cluster.nameserver, topic) == [b"once", b"once"]


# --- batches that take longer than brokers wait

IMPATIENT = {"transactionCheckInterval": 1_000, "transactionTimeOut": 500, "transactionCheckMax": 2}
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def impatient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The nameserver of a broker that asks about half messages every second, and gives them up after two questions."""
    if request.param == "ours":
        with Skyrocket(tmp_path, IMPATIENT) as process:
            yield process.nameserver
    else:
        with ApacheCluster(tmp_path) as cluster:
            cluster.broker(tmp_path / "store", {"mappedFileSizeCommitLog": 16_777_216, **IMPATIENT})
            yield cluster.nameserver


async def test_a_batch_may_take_longer_than_its_broker_waits_for_it(impatient: str, topic: str):
    """It asks for the producers, finds nobody, stores the half messages anew, and gives them up. They can be committed still."""
    options = exactly_once(impatient, topic)
    staged = await stage(options, bodies(*ROWS), query=topic)
    deadline = time.monotonic() + 60
    while (given_up := await count_in(impatient, GIVEN_UP)) < len(ROWS):
        assert time.monotonic() < deadline, f"only {given_up} were given up"
        await asyncio.sleep(0.3)
    assert await seen(impatient, topic) == [], "a broker commits nothing by itself"
    await commit(options, staged, query=topic)
    await asyncio.sleep(2.5)  # two more rounds of questions
    assert sorted(await seen(impatient, topic)) == EVERY


# --- the ledger


async def test_the_ledger_finds_a_querys_last_entry_among_many(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    staged = await stage(options, bodies(*ROWS))
    begun = Committing(3, {each.queue: 7 for each in staged}, staged)
    async with opened_session(options) as session:
        ledger = Ledger(session, options)
        assert await ledger.standing("mine") == Nothing()
        await ledger.committing("mine", begun)
        for number in range(300):
            await ledger.committed(f"other {number % 7}", number)
        told = await ledger.standing("mine")
        assert isinstance(told, Committing)
        assert (told.batch_id, dict(told.starts)) == (3, dict(begun.starts))
        assert [each.rows.tolist() for each in told.handles] == [each.rows.tolist() for each in staged]
        await ledger.committed("mine", 3)
        assert await ledger.standing("mine") == Committed(3)
        assert await ledger.standing("other 6") == Committed(max(number for number in range(300) if number % 7 == 6))
        assert await ledger.standing("nobody") == Nothing()


async def test_the_ledger_is_read_in_all_its_queues(ours: Cluster, topic: str):
    """An administrator made it with several; or with more of them, since."""
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    staged = await stage(options, bodies("x"))
    async with opened_session(options) as session:
        ledger = Ledger(session, options)
        await ledger.committing("mine", Committing(0, {each.queue: 0 for each in staged}, staged))
        await _more_queues(session, f"{topic}-ledger")
        for batch_id in range(6):
            await ledger.committed(f"query {batch_id}", batch_id)
        assert isinstance(await ledger.standing("mine"), Committing)
        assert [await ledger.standing(f"query {number}") for number in range(6)] == [Committed(number) for number in range(6)]


async def _more_queues(session: Session, topic: str) -> None:
    from skyrocket.client.admin.brokers import Brokers
    from skyrocket.client.admin.topics import TopicAdmin

    await TopicAdmin(Brokers(session)).create(topic, queues=5)
    session.routes.forget(topic)
