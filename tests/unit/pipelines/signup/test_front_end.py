"""The sign-up page: each request at its time, at most so many at once, failures counted apart."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client import UnreachableError
from skyrocket.pipelines.signup import front_end
from skyrocket.pipelines.signup.front_end import LoadResult, answer_in_line, play_load
from skyrocket.pipelines.signup.services import step_seconds
from skyrocket.pipelines.signup.sign_ups import DemoSettings, SignUp


def at_once(count: int) -> list[SignUp]:
    return [SignUp(f"u-{number}", "web", 0.0) for number in range(count)]


async def test_at_most_so_many_requests_are_worked_on_at_once_and_all_are_answered():
    running = most = 0

    async def answer(_sign_up: SignUp) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(30):  # turns of the loop, in which the other requests arrive
            await asyncio.sleep(0)
        running -= 1

    result = LoadResult()
    await play_load(at_once(20), answer, 3, result)
    assert most == 3
    assert {one.user for one in result.answered} == {one.user for one in at_once(20)}
    assert len(result.latencies_ms) == 20


async def test_who_waits_for_a_worker_waits_for_the_page():
    """The second request asked at the same moment: its latency has the time of the first one."""
    release = asyncio.Event()
    begun: list[str] = []

    async def answer(sign_up: SignUp) -> None:
        begun.append(sign_up.user)
        if sign_up.user == "u-0":
            await release.wait()

    result = LoadResult()
    load = asyncio.create_task(play_load(at_once(2), answer, 1, result))
    await asyncio.sleep(0.05)
    assert begun == ["u-0"]
    release.set()
    await load
    assert begun == ["u-0", "u-1"]
    assert min(result.latencies_ms) >= 50


async def test_a_failed_send_is_no_answer_and_its_sentence_is_kept():
    async def answer(sign_up: SignUp) -> None:
        if sign_up.user != "u-1":
            raise UnreachableError(f"No broker took {sign_up.user}.")

    result = LoadResult()
    await play_load(at_once(3), answer, 1, result)
    assert [one.user for one in result.answered] == ["u-1"]
    assert [one.user for one in result.failed] == ["u-0", "u-2"]
    assert result.first_failure == "No broker took u-0."


@pytest.mark.parametrize(("channel", "steps"), [("app", ["sms", "push", "coupons"]), ("web", ["sms", "coupons"])])
async def test_in_line_the_page_takes_the_steps_of_the_channel_one_after_the_other(
    channel: str, steps: list[str], monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(front_end.asyncio, "sleep", sleep)
    await answer_in_line(DemoSettings(seed=5))(SignUp("u-1", channel, 0))
    assert slept == [step_seconds(5, step, "u-1") for step in steps]
