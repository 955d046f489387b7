"""The doctor's examinations of a cluster: one at a time, in the background, and their results for a while.

    page ──look──▶ a result that is not old? ──▶ shown, with its age
                └▶ nothing under way? ─────────▶ an examination begins; the page asks again until it has ended

So a page never waits for an examination, and however many people look, the cluster is examined once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from skyrocket.client import Admin, ClientError
from skyrocket.console.limits import EXAMINATION_KEPT_MS, EXAMINATION_S_MAX, EXAMINATIONS_KEPT_MAX
from skyrocket.doctor.examination import Examination, examine_cluster
from skyrocket.protocol.errors import ProtocolError
from skyrocket.supervised_task import SupervisedTask


class Subject(NamedTuple):
    """What is examined: one group, one topic, or, without either, the whole cluster."""

    group: str = ""
    topic: str = ""


class ExaminationResult(NamedTuple):
    """What an examination found, or why it could not look."""

    ended_ms: int
    examined: Examination | None
    error: str = ""


class ExaminationView(NamedTuple):
    """What a page shows: the last result, if there is one, and what is under way."""

    result: ExaminationResult | None
    is_running: bool  # this subject is being examined
    waits: bool  # another subject is being examined, and this one has to wait


class Examinations:
    def __init__(
        self,
        admin: Admin,
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        examine: Callable[..., Awaitable[Examination]] = examine_cluster,
    ) -> None:
        self._admin = admin
        self._wall_ms = wall_ms
        self._examine = examine
        self._results: OrderedDict[Subject, ExaminationResult] = OrderedDict()
        self._subject: Subject | None = None  # of the examination that is under way
        self._running: SupervisedTask | None = None

    def look(self, subject: Subject) -> ExaminationView:
        """Return what is known, and begin an examination if that is old and no other is under way."""
        result = self.last(subject)
        is_old = result is None or self._wall_ms() - result.ended_ms >= EXAMINATION_KEPT_MS
        if is_old and self._subject is None:
            self._subject = subject
            self._running = SupervisedTask("doctor", self._run, on_failure=self._note_failure)
        is_running = self._subject == subject
        return ExaminationView(result, is_running, is_old and not is_running)

    def last(self, subject: Subject) -> ExaminationResult | None:
        """Return the last result, however old, and begin nothing."""
        return self._results.get(subject)

    async def wait(self) -> None:
        """Wait for the examination that is under way, if there is one."""
        if self._running is not None:
            await self._running.wait()

    async def close(self) -> None:
        if self._running is not None:
            await self._running.close()

    async def _run(self) -> None:
        assert self._subject is not None
        group, topic = self._subject
        try:
            async with asyncio.timeout(EXAMINATION_S_MAX):
                examined = await self._examine(self._admin, (group,) if group else (), (topic,) if topic else ())
        except (ClientError, ProtocolError) as error:
            self._keep(None, str(error))
        except TimeoutError:
            self._keep(None, f"The examination did not end within {EXAMINATION_S_MAX:g} s. Choose a group or a topic.")
        else:
            self._keep(examined)

    def _keep(self, examined: Examination | None, error: str = "") -> None:
        assert self._subject is not None
        self._results.pop(self._subject, None)
        self._results[self._subject] = ExaminationResult(self._wall_ms(), examined, error)
        self._subject = None
        if len(self._results) > EXAMINATIONS_KEPT_MAX:
            self._results.popitem(last=False)

    def _note_failure(self, _error: Exception) -> None:
        self._keep(None, "The examination failed. The console's log says why.")
