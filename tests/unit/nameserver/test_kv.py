from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.nameserver import kv_table
from skyrocket.nameserver.errors import FullError, KvFileError
from skyrocket.nameserver.kv_requests import KvStore
from skyrocket.nameserver.kv_table import KvTable, decode_kv_table
from skyrocket.protocol.headers import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.unit.nameserver.running import a_nameserver, registration


def put(key: str = "orders", value: str = "broker-a:4", namespace: str = "ORDER_TOPIC_CONFIG") -> PutKVConfigRequestHeader:
    return PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)


def test_a_change_returns_a_new_table():
    empty = KvTable()
    one = empty.with_value("n", "k", "v")
    assert (empty.get("n", "k"), one.get("n", "k"), one.without("n", "k").get("n", "k")) == (None, "v", None)
    assert (empty.namespace("n"), one.without("n", "k").namespace("n")) == (None, {})
    assert one.without("other", "k").namespace("n") == {"k": "v"}


def test_the_file_has_apaches_format():
    table = KvTable().with_value("ORDER_TOPIC_CONFIG", "orders", "broker-a:4;broker-b:4")
    assert table.encode() == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4;broker-b:4"}}}'
    assert decode_kv_table(table.encode()).namespace("ORDER_TOPIC_CONFIG") == {"orders": "broker-a:4;broker-b:4"}


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kv_table, "KV_TEXT_MAX", 1_000)
    table = KvTable().with_value("n", "k", "v" * 900)
    with pytest.raises(FullError, match="1000 characters"):
        table.with_value("n", "k2", "v" * 100)
    assert table.with_value("n", "k", "short").get("n", "k") == "short"


def test_values_survive_a_restart_and_can_be_deleted(tmp_path: Path):
    with a_nameserver(tmp_path) as running:
        assert running.ask(RequestCode.PUT_KV_CONFIG, put()).code == ResponseCode.SUCCESS
        assert running.ask(RequestCode.PUT_KV_CONFIG, put("unicode", "grün")).code == ResponseCode.SUCCESS
    with a_nameserver(tmp_path) as running:
        key = GetKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders")
        assert running.ask(RequestCode.GET_KV_CONFIG, key).fields == {"value": "broker-a:4"}
        every = GetKVListByNamespaceRequestHeader(namespace="ORDER_TOPIC_CONFIG")
        assert running.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, every).body == (
            '{"table":{"orders":"broker-a:4","unicode":"grün"}}'.encode()
        )
        delete = DeleteKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders")
        assert running.ask(RequestCode.DELETE_KV_CONFIG, delete).code == ResponseCode.SUCCESS
        assert running.ask(RequestCode.DELETE_KV_CONFIG, delete).code == ResponseCode.SUCCESS
        assert running.ask(RequestCode.GET_KV_CONFIG, key).code == ResponseCode.QUERY_NOT_FOUND
    assert "orders" not in (tmp_path / "kvConfig.json").read_text()


def test_a_missing_value_is_reported(tmp_path: Path):
    with a_nameserver(tmp_path) as running:
        answer = running.ask(RequestCode.GET_KV_CONFIG, GetKVConfigRequestHeader(namespace="n", key="k"))
        assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, "Namespace n has no key k.")
        answer = running.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequestHeader(namespace="n"))
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert running.ask(RequestCode.PUT_KV_CONFIG, namespace="n").code == ResponseCode.SYSTEM_ERROR


def test_a_change_that_cannot_be_written_is_refused(tmp_path: Path):
    with a_nameserver(tmp_path, kv_config_path=tmp_path / "folder" / "kvConfig.json") as running:
        (tmp_path / "folder").write_text("in the way")
        answer = running.ask(RequestCode.PUT_KV_CONFIG, put())
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "could not be saved" in (answer.remark or "")
        assert running.in_loop(lambda: running.nameserver.kv.table.namespace("ORDER_TOPIC_CONFIG")) is None


def test_brokers_get_order_configuration_on_registration_and_routes_have_it_only_if_enabled(tmp_path: Path):
    def answers(**settings: bool) -> tuple[bytes, bytes]:
        with a_nameserver(tmp_path, **settings) as running, running.connected() as ask:
            running.ask(RequestCode.PUT_KV_CONFIG, put())
            registered = ask(registration("orders", "TBW102"))
            return registered.body, running.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body

    told, route = answers()
    assert told == b'{"table":{"orders":"broker-a:4"}}'
    assert b"orderTopicConf" not in route
    told, route = answers(return_order_config=False, order_message_enable=True)
    assert told == b""
    assert b'"orderTopicConf":"broker-a:4"' in route


def test_a_damaged_file_stops_the_start_with_its_name(tmp_path: Path):
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"ORDER')
    (tmp_path / "kvConfig.json.bak").write_text("{}")
    with pytest.raises(KvFileError, match=r"kvConfig\.json is damaged.*kvConfig\.json\.bak"):
        KvStore(path).load()
    path.unlink()
    KvStore(path).load()
    path.mkdir()
    with pytest.raises(KvFileError, match="cannot be read"):
        KvStore(path).load()
