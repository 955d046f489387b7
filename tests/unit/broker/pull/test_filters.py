"""SQL92 filters: which messages a pull gets, which expressions are refused, and what the cache keeps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.pull.filters import SQL92, Filters
from skyrocket.broker.pull.sql.errors import ExpressionError
from skyrocket.broker.pull.sql.limits import EXPRESSION_LENGTH_MAX, FILTERS_KEPT_LENGTH_MAX, FILTERS_KEPT_MAX
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import ConsumerData, HeartbeatData, SubscriptionData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import PullMessageResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_SUSPEND
from skyrocket.store.read.queue_run import RECORDS_PER_READ_MAX
from tests.support.brokers.running_broker import RunningBroker, records, running

BIG_IN_EU = "a > 5 AND region = 'eu'"


async def sales(served: RunningBroker) -> None:
    """Send messages 0 to 9 to queue 0, with the number in property `a` and alternating regions eu and us."""
    for number in range(10):
        properties = {"a": str(number), "region": "us" if number % 2 else "eu", "TAGS": "red"}
        await served.send("orders", b"%d" % number, properties=properties)


async def pull(served: RunningBroker, offset: int, expression: str, **given: object) -> Command:
    return await served.pull("orders", offset, tags=expression, **{"expression_type": SQL92, **given})


async def heartbeat(served: RunningBroker, expression: str | None, version: int = 1, kind: str = SQL92) -> None:
    wanted = SubscriptionData(topic="orders", sub_string=expression, sub_version=version, expression_type=kind)
    data = ConsumerData(group_name="consumers", subscription_data_set=[wanted])
    body = encode(HeartbeatData(client_id="client-1", consumer_data_set=[data]))
    assert (await served.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS


def bodies(response: Command) -> list[bytes]:
    assert response.code == ResponseCode.SUCCESS, response.remark
    return [record.body for record in records(response)]


async def test_pull_returns_messages_that_pass_its_expression(tmp_path: Path):
    async with running(tmp_path, property_filter=True) as served:
        await sales(served)
        found = await pull(served, 0, BIG_IN_EU)
        assert bodies(found) == [b"6", b"8"]
        assert found.header(PullMessageResponseHeader).next_begin_offset == 10
        assert bodies(await pull(served, 7, BIG_IN_EU)) == [b"8"]
        first = await pull(served, 0, BIG_IN_EU, max_msg_nums=1)
        assert (bodies(first), first.header(PullMessageResponseHeader).next_begin_offset) == ([b"6"], 7)


async def test_pull_without_matching_messages_gets_the_next_offset(tmp_path: Path):
    async with running(tmp_path, property_filter=True) as served:
        await sales(served)
        for expression in ("a > 99", "missing = 'x'", "region > 5"):  # false, null, undecided
            nothing = await pull(served, 0, expression, hold_ms=0)
            assert nothing.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            assert nothing.header(PullMessageResponseHeader).next_begin_offset == 10


async def test_a_pull_without_its_own_expression_uses_the_groups_heartbeat(tmp_path: Path):
    async with running(tmp_path, property_filter=True) as served:
        await sales(served)
        await heartbeat(served, BIG_IN_EU)
        assert bodies(await served.pull("orders", 0, sys_flag=0)) == [b"6", b"8"]
        await heartbeat(served, "a = '7'", version=2)
        assert bodies(await served.pull("orders", 0, sys_flag=0, sub_version=2)) == [b"7"]
        await heartbeat(served, "red", version=3, kind="TAG")
        assert len(bodies(await served.pull("orders", 0, sys_flag=0))) == 10


async def test_only_a_matching_message_answers_a_waiting_pull(tmp_path: Path):
    async with running(tmp_path, property_filter=True) as served:
        await sales(served)
        await heartbeat(served, BIG_IN_EU)
        own = asyncio.ensure_future(pull(served, 10, BIG_IN_EU, hold_ms=60_000))
        groups = asyncio.ensure_future(served.pull("orders", 10, hold_ms=60_000, sys_flag=PULL_SUSPEND))
        await asyncio.sleep(0.05)
        for a, region in (("7", "us"), ("5", "eu"), ("x", "eu")):
            await served.send("orders", b"no", properties={"a": a, "region": region})
        await asyncio.sleep(0.05)
        assert not own.done()
        assert not groups.done()
        await served.send("orders", b"yes", properties={"a": "7", "region": "eu"})
        assert bodies(await own) == bodies(await groups) == [b"yes"]


async def test_waiting_pull_restarts_when_its_group_changes_the_expression(tmp_path: Path):
    async with running(tmp_path, property_filter=True) as served:
        await sales(served)
        await heartbeat(served, "a > 99")
        waiting = asyncio.ensure_future(served.pull("orders", 10, hold_ms=60_000, sys_flag=PULL_SUSPEND))
        await asyncio.sleep(0.05)
        await heartbeat(served, "a > 50", version=2)
        await served.send("orders", b"x", properties={"a": "60"})
        answer = await waiting
        assert (answer.code, answer.header(PullMessageResponseHeader).next_begin_offset) == (20, 10)


async def test_match_behind_more_messages_than_one_read_examines_is_found(tmp_path: Path):
    async with running(tmp_path, property_filter=True) as served:
        for _ in range(2):
            hay = [served.send("orders", b"hay", properties={"a": "1"}) for _ in range(RECORDS_PER_READ_MAX // 3)]
            await asyncio.gather(*hay)
        await served.send("orders", b"needle", properties={"a": "2"})
        wanted, offset, pulls = "a = 2" + " OR a = 2" * 900, 0, 1
        answer = await pull(served, 0, wanted)
        while answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            assert answer.header(PullMessageResponseHeader).next_begin_offset > offset
            offset, pulls = answer.header(PullMessageResponseHeader).next_begin_offset, pulls + 1
            answer = await pull(served, offset, wanted)
        assert bodies(answer) == [b"needle"]
        assert pulls >= 5, "a long expression examines fewer messages in one read"


# --- refusals


@pytest.mark.parametrize(
    ("given", "on", "code"),
    [
        ({"expression": "a > 5"}, False, ResponseCode.SYSTEM_ERROR),
        ({"expression": "a >"}, False, ResponseCode.SYSTEM_ERROR),
        ({"expression": ""}, False, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression": "a >"}, True, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression": ""}, True, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression": "a > 5", "expression_type": "XPATH"}, True, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression": "a > 5", "expression_type": "XPATH"}, False, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_pull_with_an_invalid_expression_is_refused(tmp_path: Path, given: dict, on: bool, code: ResponseCode):
    async with running(tmp_path, property_filter=on) as served:
        await sales(served)
        assert (await pull(served, 0, **given)).code == code


@pytest.mark.parametrize(
    ("expression", "kind", "on", "code"),
    [
        ("a > 5", SQL92, False, ResponseCode.SYSTEM_ERROR),
        ("a >", SQL92, False, ResponseCode.FILTER_DATA_NOT_EXIST),
        ("a >", SQL92, True, ResponseCode.FILTER_DATA_NOT_EXIST),
        ("", SQL92, True, ResponseCode.FILTER_DATA_NOT_EXIST),
        (None, SQL92, True, ResponseCode.FILTER_DATA_NOT_EXIST),
        ("a > 5", "XPATH", True, ResponseCode.FILTER_DATA_NOT_EXIST),
    ],
)
async def test_group_with_an_invalid_expression_gets_no_messages(
    tmp_path: Path, expression: str | None, kind: str, on: bool, code: ResponseCode
):
    async with running(tmp_path, property_filter=on) as served:
        await sales(served)
        await heartbeat(served, expression, kind=kind)
        assert (await served.pull("orders", 0, sys_flag=0)).code == code


async def test_an_administrator_turns_filters_on_and_off_while_the_broker_runs(tmp_path: Path):
    async with running(tmp_path) as served:
        await sales(served)
        assert (await pull(served, 0, BIG_IN_EU)).code == ResponseCode.SYSTEM_ERROR
        for value, code in (("true", ResponseCode.SUCCESS), ("false", ResponseCode.SYSTEM_ERROR)):
            changed = await served.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"enablePropertyFilter={value}\n".encode())
            assert changed.code == ResponseCode.SUCCESS
            assert (await pull(served, 0, BIG_IN_EU)).code == code


async def test_apaches_filter_file_is_not_changed(tmp_path: Path):
    file = tmp_path / "store" / "config" / "consumerFilter.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"filterDataByTopic":{"orders":{"groupFilterData":{},"topic":"orders"}}}')
    before = file.read_bytes()
    async with running(tmp_path, property_filter=True) as served:
        await sales(served)
        await heartbeat(served, BIG_IN_EU)
        assert bodies(await served.pull("orders", 0, sys_flag=0)) == [b"6", b"8"]
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.glob("consumerFilter*")] == [file.name]


# --- the cache


def filters() -> Filters:
    settings = replace(BrokerSettings(), property_filter=True)
    return Filters(lambda: settings)


def subscription(expression: str) -> SubscriptionData:
    return SubscriptionData(topic="orders", sub_string=expression, expression_type=SQL92)


def test_expression_is_compiled_once_even_if_invalid():
    some = filters()
    assert some.for_subscription(subscription("a > 5")).sql is some.for_subscription(subscription("a > 5")).sql
    assert isinstance(some._compile("a >"), ExpressionError)
    assert some._compile("a >") is some._compile("a >")


def test_cache_keeps_the_last_used_expressions():
    some = filters()
    used = some._compile("a > 5")
    for number in range(3 * FILTERS_KEPT_MAX):
        some._compile(f"a = {number}")
        assert some._compile("a > 5") is used
        assert len(some._cache) <= FILTERS_KEPT_MAX
    assert some._cache_length == sum(map(len, some._cache))


def test_cache_bounds_the_length_of_all_expressions():
    some = filters()
    for number in range(200):
        some._compile(f"a = {number}".ljust(16_000))
        assert sum(map(len, some._cache)) <= FILTERS_KEPT_LENGTH_MAX
    before = dict(some._cache)
    assert isinstance(some._compile("a" * (EXPRESSION_LENGTH_MAX + 1)), ExpressionError)
    assert some._cache == before
