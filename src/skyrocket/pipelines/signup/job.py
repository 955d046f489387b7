"""The job `signup-demo`: plays both versions of the sign-up page, watches the services, and proves that nothing was lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyrocket.client import Admin, Producer
from skyrocket.client import sync as blocking
from skyrocket.client.producer.sequence import StampCounts
from skyrocket.pipelines.audit.findings import AuditReport, StreamKey
from skyrocket.pipelines.audit.job import TopicAudit
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.deadletters.job import read_letters
from skyrocket.pipelines.deadletters.live import find_letter_topics
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.pipelines.signup.demo_names import DemoNames, remove, remove_leftovers
from skyrocket.pipelines.signup.findings import ExpectedWork, check_service, find_problems
from skyrocket.pipelines.signup.front_end import (
    IN_LINE_WORKERS,
    QUEUED_WORKERS,
    LoadResult,
    answer_in_line,
    answer_queued,
    play_load,
)
from skyrocket.pipelines.signup.funnel import REGISTERED, FunnelMinute, compare_totals, funnel_totals, make_funnel
from skyrocket.pipelines.signup.funnel_stream import FunnelStream
from skyrocket.pipelines.signup.latencies import make_histogram
from skyrocket.pipelines.signup.plan import DemoAction, DemoPlan, make_plan
from skyrocket.pipelines.signup.presentation import live_lines
from skyrocket.pipelines.signup.result import DemoHistory, DemoResult, LetterRow, ServiceResult
from skyrocket.pipelines.signup.service_process import ServiceOrders
from skyrocket.pipelines.signup.service_runner import ServiceRunner, ServiceRunners
from skyrocket.pipelines.signup.services import BY_NAME, RETRIES_MAX, SERVICES
from skyrocket.pipelines.signup.sign_ups import DemoSettings, SignUp, draw_sign_ups, split_users
from skyrocket.protocol.system_names import dead_letter_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUES: Final = 4
LOOK_S: Final = 0.5
FUNNEL_LOOK_S: Final = 2.0
DRAIN_S_MAX: Final = 180.0  # for services to serve what waits, after the load; then the demo says what is missing
ATTEMPTS_MAX: Final = RETRIES_MAX + 1
_PAGE_GROUP: Final = "page"


def run_signup_demo(
    spark: SparkSession,
    cluster: Mapping[str, str],
    settings: DemoSettings | None = None,
    *,
    on_progress: OnProgress = ignore_progress,
) -> DemoResult:
    """Run the demo on a cluster, ours or Apache's. It leaves no topic and no group behind, and removes those of killed runs.

    In the main thread, Ctrl-C and SIGTERM end it as KeyboardInterrupt, when what it created is gone.
    """
    chosen = settings or DemoSettings()
    chosen.check()
    with tempfile.TemporaryDirectory(prefix="skyrocket-signup-") as folder:
        demo = SignupDemo(spark, cluster, chosen, Path(folder), on_progress)
        try:
            return asyncio.run(_until_signal(demo.play()))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _until_signal(play: Coroutine[Any, Any, DemoResult]) -> DemoResult:
    """Play, and cancel it at Ctrl-C or SIGTERM. Spark's own handler of Ctrl-C would interrupt the event loop."""
    task = asyncio.ensure_future(play)
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            return await task
        finally:
            for number, handler in before.items():
                asyncio.get_running_loop().remove_signal_handler(number)
                signal.signal(number, handler)
    return await task


class SignupDemo:
    """One run."""

    def __init__(
        self, spark: SparkSession, cluster: Mapping[str, str], settings: DemoSettings, folder: Path, on_progress: OnProgress
    ) -> None:
        self._spark = spark
        self._cluster = dict(cluster)
        self._options = parse_cluster(cluster)
        self._settings = settings
        self._names = DemoNames.draw(time.time(), settings.seconds)
        self._folder = folder
        self._on_progress = on_progress
        self._plan: DemoPlan = make_plan(settings.seconds)
        self._history = DemoHistory()
        self._funnel: list[FunnelMinute] = []
        self._in_line = LoadResult()
        self._queued = LoadResult()
        self._what = "starting the services"
        self._expected_count = 0
        self._began_ms = 0

    async def play(self) -> DemoResult:
        """Play the whole demo."""
        settings, plan = self._settings, self._plan
        async with self._topics() as admin:
            funnel = await asyncio.to_thread(self._start_funnel)
            try:
                with ServiceRunners(self._orders, [one.name for one in SERVICES], self._folder) as services:
                    await self._play_in_line(draw_sign_ups(settings, plan.in_line_s, "i"))
                    sign_ups = draw_sign_ups(settings, plan.queued_s, "u")
                    async with self._watching(admin, services, funnel):
                        counts = await self._play_queued(sign_ups, services)
                        drained_s = await self._drain(admin, services)
                    letters = await self._collect_letters(admin)
                    self._what = "stopping the services"
                    self._report(len(self._queued.answered))
                    await asyncio.to_thread(services.stop)
                    self._funnel = make_funnel(await asyncio.to_thread(funnel.finish))
                    return await self._examine(sign_ups, services, counts, letters, drained_s)
            finally:
                await asyncio.to_thread(funnel.stop)

    # --- what the demo needs

    @contextlib.asynccontextmanager
    async def _topics(self) -> AsyncIterator[Admin]:
        """Create the topics and groups of this run, and delete them in the end. Delete first what killed runs left."""
        names = self._names
        async with Admin(options=self._options.client_options()) as admin:
            await remove_leftovers(admin, time.time())
            try:
                for topic in (names.topic, names.steps_topic):
                    await admin.topics.create(topic, queues=QUEUES)
                for service in SERVICES:
                    await admin.groups.create(names.group(service.name))
                yield admin
            finally:
                for topic in (names.topic, names.steps_topic):
                    await remove(admin, topic, is_topic=True)
                for service in SERVICES:
                    await remove(admin, names.group(service.name), is_topic=False)

    def _start_funnel(self) -> FunnelStream:
        names = self._names
        topics = [names.topic, names.steps_topic]
        return FunnelStream(self._spark, self._cluster, topics, self._settings.minute_s, f"signup_funnel_{names.run}")

    def _orders(self, service: str) -> ServiceOrders:
        names = self._names
        return ServiceOrders(
            service=service,
            cluster=self._cluster,
            topic=names.topic,
            steps_topic=names.steps_topic,
            group=names.group(service),
            ledger=str(self._folder / f"{service}.db"),
            seed=self._settings.seed,
        )

    # --- the load

    async def _play_in_line(self, sign_ups: list[SignUp]) -> None:
        self._what = "in-line: the page waits for every step"
        self._expected_count = len(sign_ups)
        load = asyncio.create_task(
            play_load(sign_ups, answer_in_line(self._settings), IN_LINE_WORKERS, self._in_line), name="in-line load"
        )
        while not load.done():
            self._report(len(self._in_line.answered))
            await asyncio.wait((load,), timeout=LOOK_S)
        await load

    async def _play_queued(self, sign_ups: list[SignUp], services: ServiceRunners) -> StampCounts:
        """Play the load over the queue, and do to the services what the plan says. Returns what the page has sent."""
        self._what = "over the queue: the page waits for the broker"
        self._expected_count = len(sign_ups)
        for service in SERVICES:
            if not service.joins_late:
                services[service.name].start()
        group = self._names.group(_PAGE_GROUP)
        async with Producer(options=self._options.client_options(), group=group, stamp=True) as producer:
            await producer.queues(self._names.topic)  # the first person does not wait for the route
            self._began_ms = _now_ms()
            began_s = time.monotonic()
            answer = answer_queued(self._settings, producer, self._names.topic, self._began_ms)
            load = asyncio.create_task(play_load(sign_ups, answer, QUEUED_WORKERS, self._queued), name="queued load")
            done = 0
            while not load.done():
                done += await self._act(services, time.monotonic() - began_s, done)
                await asyncio.wait((load,), timeout=LOOK_S / 5)
            await load
            await self._act(services, float("inf"), done)  # of a load that was too short for all actions
            counts = producer.stamped
        assert counts is not None
        return counts

    async def _act(self, services: ServiceRunners, elapsed_s: float, done: int) -> int:
        due = self._plan.due(elapsed_s, done)
        for one in due:
            runner = services[one.service]
            if one.action is DemoAction.KILL:
                await asyncio.to_thread(runner.kill)
            else:
                runner.start()
            self._history.events.append((_now_ms(), one.sentence))
        return len(due)

    async def _drain(self, admin: Admin, services: ServiceRunners) -> float:
        """Wait until every service has served everybody and consumed everything, or for DRAIN_S_MAX. Returns the seconds."""
        self._what = "draining: services catch up"
        began_s = time.monotonic()
        sound, poison = self._queued.users()

        def has_served_all() -> bool:
            found = {one: services[one.name].ledger.totals(ATTEMPTS_MAX) for one in SERVICES}
            return all(
                totals.effects >= len(one.expects(sound)) and totals.given_up >= len(one.expects(poison))
                for one, totals in found.items()
            )

        while time.monotonic() - began_s < DRAIN_S_MAX:
            if await asyncio.to_thread(has_served_all):
                await self._look(admin, services)  # duplicates at the end of a queue may still wait
                if not any(self._history.waiting(one.name) for one in SERVICES):
                    break
            await asyncio.sleep(LOOK_S / 5)
        return time.monotonic() - began_s

    # --- looks

    @contextlib.asynccontextmanager
    async def _watching(self, admin: Admin, services: ServiceRunners, funnel: FunnelStream) -> AsyncIterator[None]:
        """Look at backlogs and funnel while the caller goes on. An error of a look ends the demo."""
        ended = asyncio.Event()

        async def watch_services() -> None:
            while not ended.is_set():
                services.check()
                await self._look(admin, services)
                self._report(len(self._queued.answered))
                await _pause(ended, LOOK_S)

        async def watch_funnel() -> None:
            while not ended.is_set():
                self._funnel = make_funnel(await asyncio.to_thread(funnel.look))
                await _pause(ended, FUNNEL_LOOK_S)

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watch_services())
                tasks.create_task(watch_funnel())
                yield
                ended.set()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group  # the first error ended all others

    async def _look(self, admin: Admin, services: ServiceRunners) -> None:
        ends = await admin.offsets.at(self._names.topic, "last")
        for name, runner in services.runners.items():
            if not runner.is_running and name not in self._history.backlogs:
                continue  # it has not joined yet
            rows = await admin.offsets.get(runner.group, self._names.topic)
            waiting = sum(max(0, ends.get(row.queue, 0) - (row.offset or 0)) for row in rows)
            self._history.add_backlog(name, _now_ms(), waiting)

    def _report(self, done: int) -> None:
        below = live_lines(self._history, self._funnel)
        self._on_progress(JobProgress(self._what, done, self._expected_count, "sign-ups", below))

    # --- the proof

    async def _collect_letters(self, admin: Admin) -> list[LetterRow]:
        """Read the dead letters of this run. Waits a moment for those that are on their way."""
        _, poison = self._queued.users()
        wanted = sum(len(service.expects(poison)) for service in SERVICES)
        deadline_s = time.monotonic() + DRAIN_S_MAX / 6
        while True:
            topics = await find_letter_topics(admin, [self._names.group(service.name) for service in SERVICES])
            letters = await asyncio.to_thread(self._read_letters, topics)
            if len({(one.service, one.user) for one in letters}) >= wanted or time.monotonic() > deadline_s:
                return letters
            await asyncio.sleep(LOOK_S)

    def _read_letters(self, topics: list[str]) -> list[LetterRow]:
        own = {service.name: dead_letter_topic(self._names.group(service.name)) for service in SERVICES}
        return [
            LetterRow(name, letter.keys[0], letter.retries, letter.died_ms, letter.body)
            for name, topic in own.items()
            if topic in topics
            for letter in read_letters(self._cluster, [topic])
        ]

    async def _examine(
        self,
        sign_ups: list[SignUp],
        services: ServiceRunners,
        counts: StampCounts,
        letters: list[LetterRow],
        drained_s: float,
    ) -> DemoResult:
        self._what = "auditing"
        self._report(len(self._queued.answered))
        audit, consumed = await asyncio.to_thread(self._audit, counts)
        results = [
            self._service_result(services[service.name], sign_ups, letters, audit, consumed[service.name]) for service in SERVICES
        ]
        expected = {REGISTERED: len(self._queued.users()[0]), **{one.name: one.totals.effects for one in results}}
        queued = self._queued
        # Whether a failed send has arrived is not known, so the funnel may have more users than were answered.
        differences = [] if queued.failed else compare_totals(funnel_totals(self._funnel), expected)
        failures = f"{len(queued.failed):,} sign-ups got an error: {queued.first_failure}" if queued.failed else ""
        return DemoResult(
            settings=self._settings,
            cluster=self._options.where,
            began_ms=self._began_ms,
            in_line=make_histogram("in-line", self._in_line.latencies_ms),
            queued=make_histogram("over the queue", queued.latencies_ms),
            failed_sends=len(queued.failed),
            duplicates=sum(one.is_duplicate for one in queued.answered),
            late=sum(one.late_s >= self._settings.minute_s and not one.is_duplicate for one in queued.answered),
            poison=sum(one.is_poison for one in queued.answered),
            history=self._history,
            services=results,
            letters=letters,
            funnel=self._funnel,
            audit=audit,
            consumed=consumed,
            problems=[
                *filter(None, [failures]),
                *find_problems(audit, {one.name: one.findings for one in results}),
                *differences,
            ],
            drained_s=drained_s,
        )

    def _audit(self, counts: StampCounts) -> tuple[AuditReport, dict[str, int]]:
        """Audit the topic for each service's group. Returns the audit, and how much of the topic each group has consumed."""
        sent = {StreamKey(counts.producer_id, queue): last for queue, last in counts.last.items()}
        consumed, found = {}, AuditReport(())
        with blocking.Admin(options=self._options.client_options()) as admin:
            for service in SERVICES:
                group = self._names.group(service.name)
                audit = TopicAudit(self._spark, admin, self._cluster, [self._names.topic], group=group, sent=sent)
                found = audit.once()
                consumed[service.name] = sum(stream.consumed or 0 for stream in found.streams)
        return found, consumed

    def _service_result(
        self, runner: ServiceRunner, sign_ups: list[SignUp], letters: Iterable[LetterRow], audit: AuditReport, consumed: int
    ) -> ServiceResult:
        service = BY_NAME[runner.name]
        acknowledged, poison = self._queued.users()
        sent, _ = split_users(sign_ups)
        own = [letter for letter in letters if letter.service == runner.name]
        expected = ExpectedWork(service.expects(acknowledged), service.expects(sent), service.expects(poison))
        stored = sum(stream.stored for stream in audit.streams)
        return ServiceResult(
            name=runner.name,
            expected=len(expected.acknowledged),
            totals=runner.ledger.totals(ATTEMPTS_MAX),
            letters=len(own),
            waits_ms=runner.ledger.waits_ms(),
            findings=check_service(
                expected, runner.ledger.effects(), {letter.user for letter in own}, stored=stored, consumed=consumed
            ),
        )


async def _pause(ended: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
