"""The pull loop of one queue: pull, wait as the policy decides, and continue after any failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from skyrocket.chance import CHANCE
from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.pull.pull_policy import PullAction, PullDecision, PullStatus, after_pull, before_pull
from skyrocket.client.consumer.pull.pull_request import PullRequest, PullResult, decode_pull_response
from skyrocket.client.errors import BrokerError, ClientClosedError, ClientError, UnreachableError
from skyrocket.client.received import Received, split_pulled_messages
from skyrocket.client.session.namespaces import without_namespace
from skyrocket.client.session.proxy_failures import check_proxy
from skyrocket.client.session.routes import MASTER_ID
from skyrocket.client.session.session import Session, client_error
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import encode_command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.properties import RETRY_TOPIC
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)


class Puller:
    """The pull loop of one queue."""

    def __init__(
        self,
        session: Session,
        group: str,
        assigned: AssignedQueue,
        *,
        on_messages: Callable[[AssignedQueue], None],
        on_offset_moved: Callable[[AssignedQueue, int], None],
        is_paused: Callable[[AssignedQueue], bool],
        commits_with_pulls: bool,
    ) -> None:
        """`on_messages` is called after a pull with new messages, `on_offset_moved` when the queue must restart at another
        offset. With `commits_with_pulls`, pulls carry the group's offset."""
        self._session = session
        self._assigned = assigned
        self._on_messages = on_messages
        self._on_offset_moved = on_offset_moved
        self._is_paused = is_paused
        self._commits_with_pulls = commits_with_pulls
        self._limits = assigned.process_queue.limits
        self._request = PullRequest(group, assigned.queue, assigned.subscription, assigned.process_queue.limits)
        self._after_pull = {status: after_pull(status, self._limits) for status in PullStatus}
        self._pulls_on = self._after_pull[PullStatus.FOUND] == PullDecision(PullAction.PULL)  # at once, as long as there is more
        self._signs = session.options.credentials is not None
        namespace = session.options.namespace
        self._namespace = namespace
        self._topic = without_namespace(namespace, assigned.queue.topic)

    async def run(self) -> None:
        """Pull until the queue is dropped or must restart, or until the task is cancelled."""
        assigned, session = self._assigned, self._session
        process_queue = assigned.process_queue
        while True:
            now_ms = session.now_ms()
            before = before_pull(process_queue, now_ms, paused=self._is_paused(assigned))
            if before.action is PullAction.END:
                return
            process_queue.note_pull(now_ms)
            if before.action is PullAction.WAIT:
                await assigned.wait_for_change(before.delay_ms)
                continue
            status, next_offset = await self._pull(now_ms)
            if status is PullStatus.FOUND and self._pulls_on:
                continue
            after = self._after_pull[status]
            if after.action is PullAction.RESTART:
                self._on_offset_moved(assigned, next_offset)
                return
            if status is PullStatus.FAILED:  # consumers that lost a broker together come back one by one
                await assigned.wait_for_change(after.delay_ms - int(after.delay_ms / 2 * CHANCE.random()))
            elif after.delay_ms:
                await assigned.wait_for_change(after.delay_ms)

    async def _pull(self, now_ms: int) -> tuple[PullStatus, int]:
        assigned = self._assigned
        asked_offset = assigned.process_queue.next_offset
        try:
            result = await self._ask_broker(now_ms)
            messages = self._decode_messages(result.records, result.queue_end) if result.records else []
        except ClientClosedError:
            raise
        except (ClientError, RecordError) as error:
            return self._note_failure(error), 0
        if assigned.is_failing:
            assigned.is_failing = False
            log.info("Pulling %s works again.", assigned.queue)
        assigned.suggested_broker_id = result.suggested_broker_id
        if result.status is PullStatus.OFFSET_ILLEGAL:
            return result.status, result.next_offset
        if result.status is PullStatus.NO_MATCHED_MESSAGES and result.next_offset <= asked_offset:
            return PullStatus.SLAVE_BEHIND, result.next_offset
        if assigned.process_queue.add(messages, result.next_offset):
            self._on_messages(assigned)
        return result.status, result.next_offset

    def _note_failure(self, error: Exception) -> PullStatus:
        assigned = self._assigned
        assigned.suggested_broker_id = MASTER_ID  # a slave that fails is not asked again before the master suggests it again
        is_busy = isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL
        if not assigned.is_failing and not is_busy:
            assigned.is_failing = True
            log.warning("Pulling %s failed; it is retried every few seconds. %s", assigned.queue, error)
        if not isinstance(error, BrokerError):
            self._session.refresh_soon(assigned.queue.topic)
        return PullStatus.BROKER_BUSY if is_busy else PullStatus.FAILED

    async def _ask_broker(self, now_ms: int) -> PullResult:
        session, assigned = self._session, self._assigned
        process_queue = assigned.process_queue
        address, is_master = self._address()
        commit = process_queue.commit_offset if self._commits_with_pulls and is_master else None
        if commit == assigned.committed_offset or not assigned.committed_offset:
            commit = None  # the first one is not sent beside others: see `offsets.offset_commit`
        deadline_ms = now_ms + self._limits.pull_answer_ms
        connection = session.dialer.open_connection(address)
        if connection is None:
            connection = await session.connection(address, deadline_ms)
        opaque = connection.next_opaque()
        if self._signs:
            command = session.sign(self._request.command(process_queue.next_offset, commit))
            command.opaque = opaque
            frame = encode_command(command)
        else:
            frame = self._request.encode_frame(opaque, process_queue.next_offset, commit)
        try:
            answer = await connection.request_frame(opaque, frame, deadline_ms)
            check_proxy(answer, address)
        except NetError as error:
            raise client_error(error) from error
        result = decode_pull_response(answer, address)
        if commit is not None:
            assigned.committed_offset = commit
        return result

    def _address(self) -> tuple[str, bool]:
        """Return the address to pull from, and whether it is a master's.

        The broker that the last response suggested comes first, then the master, then any broker of that name.
        """
        routes, name = self._session.routes, self._assigned.queue.broker_name
        suggested = routes.address(name, self._assigned.suggested_broker_id)
        if suggested is not None:
            return suggested, self._assigned.suggested_broker_id == MASTER_ID
        address = routes.any_address(name)
        if address is None:
            raise UnreachableError(f"No nameserver has an address of broker {name}.")
        return address, address == routes.address(name)

    def _decode_messages(self, records: bytes, queue_end: int) -> list[Received]:
        assigned, topic = self._assigned, self._topic
        queue, now_ms = assigned.queue, time.time_ns() // 1_000_000
        messages = split_pulled_messages(
            records, queue.topic, broker_name=queue.broker_name, topic=topic, arrived_ms=now_ms, queue_end=queue_end
        )
        if assigned.is_retry:
            for message in messages:
                message.topic = without_namespace(self._namespace, message.properties.get(RETRY_TOPIC, topic))
        return assigned.subscription.filter(messages)
