"""The pull loop of one queue: ask the broker for more, wait where there is reason to, and go on whatever happens."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.pull.pull_policy import Outcome, Step, after_pull, before_pull
from skyrocket.client.consumer.pull.pull_request import PullAnswer, PullRequest, pull_answer
from skyrocket.client.errors import BrokerError, ClientClosedError, ClientError, UnreachableError
from skyrocket.client.received import PulledMessage, Received
from skyrocket.client.session.namespaces import without_namespace
from skyrocket.client.session.routes import MASTER_ID
from skyrocket.client.session.session import Session, client_error
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import encode_command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.properties import RETRY_TOPIC
from skyrocket.protocol.message.record import split_plainly
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)


class Pulling:
    def __init__(
        self,
        session: Session,
        group: str,
        held: HeldQueue,
        *,
        arrived: Callable[[HeldQueue], None],
        moved: Callable[[HeldQueue, int], None],
        is_paused: Callable[[HeldQueue], bool],
        commits: bool,
    ) -> None:
        """`arrived` is told that there are messages; `moved` that the queue is to be begun anew, from another offset. With
        `commits` the group's offset travels with pulls."""
        self._session = session
        self._held = held
        self._arrived = arrived
        self._moved = moved
        self._is_paused = is_paused
        self._commits = commits
        self._limits = held.state.limits
        self._request = PullRequest(group, held.queue, held.subscription, held.state.limits)
        self._after = {outcome: after_pull(outcome, self._limits) for outcome in Outcome}
        self._signs = session.options.credentials is not None
        namespace = session.options.namespace
        self._namespace = namespace
        self._topic = without_namespace(namespace, held.queue.topic)

    async def run(self) -> None:
        """Until the queue is dropped, or this is cancelled."""
        held, session = self._held, self._session
        state = held.state
        while True:
            before = before_pull(state, session.now_ms(), paused=self._is_paused(held))
            if before.step is Step.GIVE_UP:
                return
            state.pulled(session.now_ms())
            if before.step is Step.WAIT:
                await held.changed(before.delay_ms)
                continue
            outcome, next_offset = await self._pull()
            after = self._after[outcome]
            if after.step is Step.BEGIN_ANEW:
                self._moved(held, next_offset)
                return
            if after.delay_ms:
                await held.changed(after.delay_ms)

    async def _pull(self) -> tuple[Outcome, int]:
        held, state = self._held, self._held.state
        try:
            answer = await self._asked()
            messages = self._received(answer.records) if answer.records else []
        except ClientClosedError:
            raise
        except (ClientError, RecordError) as error:
            return self._failed(error), 0
        if held.is_failing:
            held.is_failing = False
            log.info("%s can be pulled again.", held.queue)
        held.suggested_id = answer.ask_broker_id
        if answer.outcome is Outcome.OFFSET_ILLEGAL:
            return answer.outcome, answer.next_offset
        if state.took(messages, answer.next_offset):
            self._arrived(held)
        return answer.outcome, answer.next_offset

    def _failed(self, error: Exception) -> Outcome:
        busy = isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL
        if not self._held.is_failing and not busy:
            self._held.is_failing = True
            log.warning("%s cannot be pulled; it is tried again and again. %s", self._held.queue, error)
        if not isinstance(error, BrokerError):
            self._session.refresh_soon(self._held.queue.topic)
        return Outcome.BROKER_BUSY if busy else Outcome.FAILED

    async def _asked(self) -> PullAnswer:
        session, held = self._session, self._held
        address, is_master = self._address()
        commit = held.state.commit_offset if self._commits and is_master else None
        if commit == held.kept:
            commit = None
        deadline_ms = session.now_ms() + self._limits.pull_answer_ms
        connection = session.dialer.open_connection(address)
        if connection is None:
            connection = await session.connection(address, deadline_ms)
        opaque = connection.next_opaque()
        if self._signs:
            command = session.sign(self._request.command(held.state.next_offset, commit))
            command.opaque = opaque
            frame = encode_command(command)
        else:
            frame = self._request.frame(opaque, held.state.next_offset, commit)
        try:
            answer = await connection.request_frame(opaque, frame, deadline_ms)
        except NetError as error:
            raise client_error(error) from error
        pulled = pull_answer(answer, address)
        if commit is not None:
            held.kept = commit
        return pulled

    def _address(self) -> tuple[str, bool]:
        """Where to pull from, and whether that is a master. The suggested broker, else the master, else whoever is there."""
        routes, name = self._session.routes, self._held.queue.broker_name
        suggested = routes.address(name, self._held.suggested_id)
        if suggested is not None:
            return suggested, self._held.suggested_id == MASTER_ID
        address = routes.any_address(name)
        if address is None:
            raise UnreachableError(f"The nameservers know no address of broker {name}.")
        return address, address == routes.address(name)

    def _received(self, records: bytes) -> list[Received]:
        held, topic = self._held, self._topic
        broker, now_ms = held.queue.broker_name, time.time_ns() // 1_000_000
        messages: list[Received] = [PulledMessage(parts, broker, topic, now_ms) for parts in split_plainly(records)]
        if held.is_retry:
            for message in messages:
                message.topic = without_namespace(self._namespace, message.properties.get(RETRY_TOPIC, topic))
        return held.subscription.wanted(messages)
