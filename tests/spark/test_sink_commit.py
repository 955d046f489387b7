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
from skyrocket.spark.sink.commit import CommitError, FencedError
from skyrocket.spark.sink.event_loop import open_session
from skyrocket.spark.sink.fence import NO_FENCE
from skyrocket.spark.sink.half_messages import Check, EndResult, HalfMessages
from skyrocket.spark.sink.handles import Handles, count_rows
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.ledger_entries import BatchCommitted, BatchCommitting, NoBatch, QueryLedger
from tests.spark.conftest import Cluster
from tests.spark.sink_deaths import Life, mortal_commit, no_check
from tests.spark.sink_scenes import abort, bodies, commit, count_in, exactly_once, messages, stage, visible_bodies
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster
from tests.support.processes.skyrocket_process import Skyrocket

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


# --- two drivers


async def test_driver_may_be_overtaken_at_any_step_of_a_commit(cluster: Cluster, topic: str):
    """Another driver commits the same batch, with its rows in another order, while this one pauses. Then this one goes on."""
    chance = random.Random(topic)
    fenced = 0
    for steps in range(200):
        name = f"{topic}-{steps}"
        options = exactly_once(cluster.nameserver, name)
        staged = await stage_again(options, name, chance)

        async def overtake(options: SinkOptions = options, name: str = name) -> None:
            await commit(options, await stage_again(options, name, chance), query=name)

        life = Life(steps, overtake)
        was_first = await mortal_commit(options, staged, life, query=name)
        fenced += not was_first
        found = sorted(await visible_bodies(cluster.nameserver, name))
        assert found == EVERY, f"a driver that was overtaken after {steps} steps left {found}"
        if not life.is_interrupted:
            break
    assert fenced >= len(ROWS), "the fence stops a driver between any two ENDs"


async def test_older_driver_is_fenced(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    for batch_id, run in ((0, "older"), (1, "older"), (2, "newer"), (3, "newer")):
        staged = await stage(options, bodies(f"{batch_id} by {run}"), query=topic, batch_id=batch_id)
        await commit(options, staged, query=topic, batch_id=batch_id, run=run)
    for batch_id in (2, 3, 4):
        staged = await stage(options, bodies(f"{batch_id} by older"), query=topic, batch_id=batch_id)
        with pytest.raises(FencedError, match=f"Batch {batch_id} of query {topic} is not committed: another driver"):
            await commit(options, staged, query=topic, batch_id=batch_id, run="older")
        await abort(options, staged, query=topic, batch_id=batch_id)  # Spark does this next
    staged = await stage(options, bodies("4 by newer"), query=topic, batch_id=4)
    await commit(options, staged, query=topic, batch_id=4, run="newer")
    expected = [b"0 by older", b"1 by older", b"2 by newer", b"3 by newer", b"4 by newer"]
    assert sorted(await visible_bodies(cluster.nameserver, topic)) == expected


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

    async def end(self, handles: Sequence[Handles], outcome: Outcome, check: Check = no_check) -> EndResult:
        self.rounds += 1
        if outcome is not Outcome.COMMIT or self.rounds > 2:
            return await super().end(handles, outcome, check)
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
        async def end(self, handles: Sequence[Handles], outcome: Outcome, check: Check = no_check) -> EndResult:
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


async def test_busy_broker_is_asked_again_and_no_half_message_counts_as_gone(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """A commit died after two of five rows. Its replay has other rows under the same ids, and meets a broker that is busy."""
    monkeypatch.setattr("skyrocket.spark.sink.commit.PAUSE_FIRST_MS", 1)
    options = exactly_once(cluster.nameserver, topic)
    assert not await mortal_commit(options, await stage(options, bodies(*ROWS), query=topic), Life(12), query=topic)
    done = await visible_bodies(cluster.nameserver, topic)
    assert 0 < len(done) < len(ROWS), done
    real, busy = HalfMessages.end, iter(range(8))

    async def end(self: HalfMessages, handles: Sequence[Handles], outcome: Outcome, check: Check = no_check) -> EndResult:
        if outcome is Outcome.COMMIT and next(busy, None) is not None:
            return EndResult(list(handles), [], refusal="The broker is busy: this request has waited for 3100 ms.")
        return await real(self, handles, outcome, check)

    monkeypatch.setattr(HalfMessages, "end", end)
    await commit(options, await stage(options, bodies(*reversed(ROWS)), query=topic), query=topic)
    assert next(busy, None) is None, "the broker was busy eight times"
    assert sorted(await visible_bodies(cluster.nameserver, topic)) == EVERY


async def test_broker_says_which_half_messages_it_does_not_have(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    staged = await stage(options, bodies("there", "also there"), query=topic)
    gone = expired(staged)
    async with open_session(options) as session:
        half_messages = HalfMessages(session, options)
        await half_messages.fetch_queue_ends(each.queue for each in staged)
        ended = await half_messages.end([*gone, *staged], Outcome.COMMIT)
        assert [count_rows(each) for each in (ended.not_done, ended.unknown, ended.gone)] == [0, 0, 2], ended
        assert count_rows(await half_messages.find_expired(ended.gone)) == 2
        assert await half_messages.find_expired(staged) == []


def expired(staged: Sequence[Handles]) -> list[Handles]:
    """Return handles of half messages that were before the first that their broker has."""
    return [
        each._replace(half_offsets=-1 - each.half_offsets, physical_offsets=each.physical_offsets + (1 << 40)) for each in staged
    ]


async def write_unfinished(options: SinkOptions, query: str, first: Sequence[Handles]) -> None:
    """Write the ledger as a driver leaves it that dies before its first END."""
    async with open_session(options) as session:
        ends = await HalfMessages(session, options).fetch_queue_ends(each.queue for each in first)
        ledger = SinkLedger(session, options, query)
        fence = NO_FENCE.next("dead")
        await ledger.write_opened(fence, {each.queue.broker_name for each in first})
        await ledger.write_committing(BatchCommitting(0, ends, first), fence)


async def test_replay_replaces_a_whole_batch_whose_half_messages_expired(cluster: Cluster, topic: str):
    options = exactly_once(cluster.nameserver, topic)
    await write_unfinished(options, topic, expired(await stage(options, bodies(*ROWS[:2]), query=topic)))
    await commit(options, await stage_again(options, topic, random.Random(3)), query=topic)
    assert sorted(await visible_bodies(cluster.nameserver, topic)) == EVERY, "whatever its rows' ids are"


async def test_replay_replaces_the_rows_whose_half_messages_expired(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic)
    first = await stage(options, bodies(*ROWS), query=topic)
    (gone, *_), kept = expired(first[:1]), first[1:]
    await write_unfinished(options, topic, [gone, *kept])
    assert not await mortal_commit(options, await stage(options, bodies(*ROWS), query=topic), Life(9), query=topic)
    await commit(options, await stage(options, bodies(*ROWS), query=topic), query=topic)
    assert sorted(await visible_bodies(ours.nameserver, topic)) == EVERY


async def test_replay_without_the_rows_that_expired_is_an_error(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic)
    first = await stage(options, bodies(*ROWS), query=topic)
    (gone, *_), kept = expired(first[:1]), first[1:]
    await write_unfinished(options, topic, [gone, *kept])
    replay = await stage(options, bodies(*ROWS), query=topic, partition=1)
    with pytest.raises(CommitError, match="the replay has 0 rows with their ids"):
        await commit(options, replay, query=topic)


async def test_half_messages_that_are_not_found_within_retry_timeout_are_replaced(ours: Cluster, topic: str):
    """A broker that lost them says the same as one that cannot read them yet, so the sink waits as long as it may."""
    options = exactly_once(ours.nameserver, topic, retryTimeout="500ms")
    lost = [
        each._replace(physical_offsets=each.physical_offsets + (1 << 40))
        for each in await stage(options, bodies("x"), query=topic)
    ]
    await write_unfinished(options, topic, lost)
    began = time.monotonic()
    await commit(options, await stage(options, bodies("x"), query=topic), query=topic)
    assert time.monotonic() - began > 0.5
    assert await visible_bodies(ours.nameserver, topic) == [b"x"]


async def test_repeated_end_delivers_twice(cluster: Cluster, topic: str):
    """This is why the sink searches the queues first. If brokers ever ignore a repeated END, the search can go."""
    options = exactly_once(cluster.nameserver, topic)
    staged = await stage(options, bodies("once"), query=topic)
    async with open_session(options) as session:
        half_messages = HalfMessages(session, options)
        await half_messages.fetch_queue_ends(each.queue for each in staged)  # the nameserver knows the new topic by now
        for _ in range(2):
            ended = await half_messages.end(staged, Outcome.COMMIT)
            assert ended.left == [], ended
    assert await visible_bodies(cluster.nameserver, topic) == [b"once", b"once"]


# --- batches that take longer than brokers wait

IMPATIENT = {
    "transactionCheckInterval": 1_000,
    "transactionTimeOut": 500,
    "transactionCheckMax": 2,
}
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def impatient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The nameserver of a broker that checks half messages every second, and gives up after two checks."""
    if request.param == "ours":
        with Skyrocket(
            tmp_path, {**IMPATIENT, "transactionOpBatchInterval": 100}
        ) as process:  # a check round sees what has ended
            yield process.nameserver
    else:
        with ApacheCluster(tmp_path) as cluster:
            cluster.broker(tmp_path / "store", {"mappedFileSizeCommitLog": 16_777_216, **IMPATIENT, **NO_TIMERS})
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


# --- barriers


async def test_batch_without_rows_leaves_no_half_message(impatient: str, topic: str):
    """The broker reports every half message that it gives up. The one that is staged last is given up last.

    On a busy machine the row of the first batch may be given up too, before it is committed.
    """
    options = exactly_once(impatient, topic)
    await commit(options, await stage(options, bodies("row"), query=topic), query=topic)
    for batch_id in range(1, 4):
        await commit(options, [], query=topic, batch_id=batch_id)
    await stage(options, bodies("last"), query=topic, batch_id=4)
    given_up: list[bytes] = []
    while b"last" not in given_up:
        given_up = [message.body for message in await messages(impatient, GIVEN_UP, least=len(given_up) + 1)]
    assert set(given_up) <= {b"row", b"last"}


# --- the ledger


async def test_ledger_finds_the_last_entry_of_a_query_among_many(ours: Cluster, topic: str):
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    staged = await stage(options, bodies(*ROWS))
    begun = BatchCommitting(3, {each.queue: 7 for each in staged}, staged)
    async with open_session(options) as session:
        mine, *others = [SinkLedger(session, options, name) for name in ("mine", *(f"other {number}" for number in range(7)))]
        assert await mine.read() == QueryLedger(NoBatch(), NO_FENCE)
        fence = NO_FENCE.next("a run")
        await mine.write_opened(fence, {each.queue.broker_name for each in staged})
        await mine.write_committing(begun, fence)
        for number in range(300):
            await others[number % 7].write_committed(number, NO_FENCE)
        state, found = await mine.read()
        assert isinstance(state, BatchCommitting)
        assert (state.batch_id, dict(state.starts), found) == (3, dict(begun.starts), fence)
        assert [each.rows.tolist() for each in state.handles] == [each.rows.tolist() for each in staged]
        await mine.write_committed(3, fence)
        assert await mine.read() == QueryLedger(BatchCommitted(3), fence)
        assert (await others[6].read()).state == BatchCommitted(max(number for number in range(300) if number % 7 == 6))
        assert (await SinkLedger(session, options, "nobody").read()).state == NoBatch()


async def test_late_entry_does_not_hide_a_later_batch(ours: Cluster, topic: str):
    """A request that got no answer is repeated, and its first copy arrives behind the next entry. The driver dies then."""
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    await commit(options, await stage(options, bodies("first"), query=topic), query=topic)
    staged = await stage(options, bodies(*ROWS), query=topic, batch_id=1)
    assert not await mortal_commit(options, staged, Life(13), query=topic, batch_id=1)
    assert 1 < len(await visible_bodies(ours.nameserver, topic)) < 6, "the commit of the second batch is unfinished"
    async with open_session(options) as session:
        ledger = SinkLedger(session, options, topic)
        await ledger.write_committed(0, NO_FENCE)
        state = (await ledger.read()).state
        assert isinstance(state, BatchCommitting)
        assert state.batch_id == 1
    await commit(options, await stage(options, bodies(*ROWS), query=topic, batch_id=1), query=topic, batch_id=1)
    assert sorted(await visible_bodies(ours.nameserver, topic)) == [b"first", *EVERY]


async def test_ledger_reads_all_its_queues(ours: Cluster, topic: str):
    """An administrator may create the ledger with several queues, or add queues later."""
    options = exactly_once(ours.nameserver, topic, ledgerTopic=f"{topic}-ledger")
    staged = await stage(options, bodies("x"))
    async with open_session(options) as session:
        mine, *others = [SinkLedger(session, options, name) for name in ("mine", *(f"query {number}" for number in range(6)))]
        await mine.write_opened(NO_FENCE.next("a run"), {each.queue.broker_name for each in staged})
        await mine.write_committing(BatchCommitting(0, {each.queue: 0 for each in staged}, staged), NO_FENCE)
        await _add_queues(session, f"{topic}-ledger")
        for batch_id, ledger in enumerate(others):
            await ledger.write_committed(batch_id, NO_FENCE)
        state, fence = await mine.read()
        assert isinstance(state, BatchCommitting)
        assert fence.epoch == 1
        assert [(await ledger.read()).state for ledger in others] == [BatchCommitted(number) for number in range(6)]


async def _add_queues(session: Session, topic: str) -> None:
    from skyrocket.client.admin.brokers import Brokers
    from skyrocket.client.admin.topics import TopicAdmin

    await TopicAdmin(Brokers(session)).create(topic, queues=5)
    session.routes.forget(topic)
