"""A background task that fails is logged, and starts again or is reported."""

from __future__ import annotations

import asyncio
import logging

import pytest

from skyrocket.supervised_task import SupervisedTask


class Work:
    """Fails as often as it is told, then works until it is cancelled."""

    def __init__(self, failures: int) -> None:
        self.starts = 0
        self.is_cancelled = False
        self.works = asyncio.Event()
        self._failures = failures

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self._failures:
            raise OSError(5, "Input/output error")
        self.works.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


async def test_a_task_that_fails_is_logged_and_starts_again(caplog: pytest.LogCaptureFixture):
    work = Work(failures=3)
    task = SupervisedTask("the work", work.run, pause_s=0.001)
    async with asyncio.timeout(60):
        await work.works.wait()
    assert work.starts == 4
    assert caplog.text.count("The task 'the work' failed and starts again") == 3
    assert "Input/output error" in caplog.text
    assert not task.is_over
    await task.close()
    assert (task.is_over, work.is_cancelled) == (True, True)


async def test_the_pause_doubles_with_each_failure_in_a_row(caplog: pytest.LogCaptureFixture):
    work = Work(failures=4)
    task = SupervisedTask("the work", work.run, pause_s=0.001)
    async with asyncio.timeout(60):
        await work.works.wait()
    await task.close()
    pauses = [float(record.args[1]) for record in caplog.records if record.args]
    assert pauses == [0.001, 0.002, 0.004, 0.008]


async def test_a_task_that_must_not_start_again_is_reported(caplog: pytest.LogCaptureFixture):
    work, reported = Work(failures=1), []
    task = SupervisedTask("the work", work.run, reported.append)
    await task.wait()
    assert (work.starts, [str(error) for error in reported]) == (1, ["[Errno 5] Input/output error"])
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]


async def test_a_task_that_ends_by_itself_has_ended(caplog: pytest.LogCaptureFixture):
    task = SupervisedTask("the work", lambda: asyncio.sleep(0))
    await task.wait()
    assert (task.is_over, caplog.text) == (True, "")


async def test_a_task_is_closed_while_it_pauses():
    work = Work(failures=1)
    task = SupervisedTask("the work", work.run, pause_s=3_600)
    await asyncio.sleep(0)
    await task.close()
    assert (task.is_over, work.starts) == (True, 1)
