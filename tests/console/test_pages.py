"""The pages of the console, over HTTP, with a real broker behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from skyrocket.client import Message, Outcome
from skyrocket.client.sync import Admin, Consumer, Producer, TransactionProducer
from skyrocket.console.server import ConsoleServer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.console import Visitor, running_console, text_of
from tests.support.ports import free_port
from tests.support.waiting import wait_until

PAGES = ["/", "/cluster", "/topics", "/groups", "/messages", "/dead-letters", "/waiting", "/access"]


@pytest.fixture(scope="module")
def admin(broker: SyncBroker) -> Iterator[Admin]:
    with Admin(broker.nameserver) as running:
        yield running


# --- empty, in error


@pytest.mark.parametrize("path", PAGES)
def test_a_cluster_without_anything_has_pages_that_say_so(path: str, visitor: Visitor):
    page = visitor.read(path)
    told = {
        "/": "Nothing: every broker answers",
        "/cluster": "no slave is connected",
        "/topics": "There is no topic yet.",
        "/groups": "There is no group yet.",
        "/messages": "Give a topic.",
        "/dead-letters": "No group has given up a message.",
        "/waiting": "No transaction waits.",
        "/access": "authentication is off, authorization is off. ",
    }
    assert told[path] in page


@pytest.mark.parametrize("path", [*PAGES, "/messages?topic=orders"])
def test_a_cluster_that_does_not_answer_is_a_sentence_and_not_an_empty_list(path: str):
    with running_console(f"127.0.0.1:{free_port()}") as lonely:
        visitor = Visitor(lonely.url)
        page = visitor.read(path)
        visitor.close()
    if path != "/messages":
        assert "Failed." in page
        assert "There is no topic yet" not in page


# --- cluster


def test_the_overview_and_the_cluster_show_the_broker(visitor: Visitor, broker: SyncBroker):
    overview = visitor.read("/")
    assert "1 of 1 answer" in overview
    assert f"broker-a master {broker.address}" in overview
    cluster = visitor.read("/cluster")
    assert f"{broker.nameserver} 1 answers" in cluster
    assert "5.5.0" in cluster
    assert "listenPort 0" in cluster, "the nameserver's settings"


def test_charts_have_points_after_the_first_sample(visitor: Visitor):
    wait_until(lambda: "<svg" in visitor.get("/"), "a chart")
    assert 'aria-label="Messages in' in visitor.get("/")


def test_a_broker_has_its_settings_and_figures_and_a_search(visitor: Visitor, broker: SyncBroker):
    page = visitor.read(f"/brokers/{broker.address}")
    assert "fileReservedTime 72" in page
    assert "brokerVersionDesc V5_5_0" in page
    found = visitor.read(f"/brokers/{broker.address}?q=reservedtime")
    assert "fileReservedTime 72" in found
    assert "brokerVersionDesc" not in found


def test_a_setting_is_changed_and_what_the_broker_refuses_is_told(visitor: Visitor, broker: SyncBroker):
    path = f"/brokers/{broker.address}"
    assert f"fileReservedTime of broker-a at {broker.address} is 71." in visitor.fill(path, name="fileReservedTime", value="71")
    assert "fileReservedTime 71" in visitor.read(path)
    refused = visitor.fill(path, status=502, name="storePathRootDir", value="/tmp/elsewhere")
    assert "storePathRootDir" in refused


def test_times_of_stages_are_shown_of_a_broker_without_metrics(visitor: Visitor, broker: SyncBroker, admin: Admin):
    broker.create_topic("timed")
    path = f"/brokers/{broker.address}"
    with Producer(broker.nameserver) as producer:

        def has_appends() -> bool:
            producer.send(Message("timed", b"x"))
            return re.search(r"append [1-9]\d* ≤ [\d.]+ ms ≤ [\d.]+ m?s", visitor.read(path)) is not None

        wait_until(has_appends, lambda: f"the stages of the broker: {visitor.read(path)}")
    assert 'aria-label="Stages, 99 % at most' in visitor.get(path)
    overview = visitor.read("/")
    assert re.search(r"Where time goes broker .* broker-a .*≤ [\d.]+ ms · ≤ [\d.]+ m?s", overview), overview
    admin.topics.delete("timed")


def test_an_address_that_is_no_broker_is_not_asked(visitor: Visitor):
    assert "No nameserver has a broker at 127.0.0.1:1" in visitor.read("/brokers/127.0.0.1:1", 404)


# --- topics


def test_a_topic_is_created_changed_tried_and_deleted(visitor: Visitor, broker: SyncBroker, admin: Admin):
    page = visitor.fill("/new-topic", topic="orders", read_queues=4, write_queues=4, type="NORMAL")
    assert "Topic orders is created." in page
    assert "0 messages in 4 queues, of type NORMAL." in page
    assert "Topic 'orders' exists already" in visitor.fill("/new-topic", status=400, topic="orders")

    page = visitor.fill("/topics/orders/change", read_queues=6, write_queues=6)
    assert "Topic orders is changed." in page
    assert {(one.read_queues, one.attributes["message.type"]) for one in admin.topics.get("orders")} == {(6, "NORMAL")}

    body = "line one\r\nline two"
    page = visitor.fill("/topics/orders", "send", body=body, tag="paid", keys="o-7 o-8", properties="region=eu\r\nshop=3")
    assert re.search(r"Sent message [0-9A-F]{32}: OK, queue \d of broker-a, offset 0\.", page)
    (stored,) = broker.messages("orders", at_least=1)
    assert (stored.body, stored.tag, stored.keys, stored.properties["region"]) == (
        b"line one\nline two",
        "paid",
        ["o-7", "o-8"],
        "eu",
    )

    assert "1 message will be lost" in visitor.read("/topics/orders/delete")
    assert "Type orders to confirm." in visitor.fill("/topics/orders/delete", status=400, confirm="order")
    assert "orders" in admin.topics.names()
    assert "Topic orders is deleted." in visitor.fill("/topics/orders/delete", confirm="orders")
    assert "orders" not in admin.topics.names()
    assert "Topic 'orders' does not exist" in visitor.read("/topics/orders", 404)


def test_wrong_input_changes_nothing_and_says_why(visitor: Visitor, admin: Admin):
    assert "not 'many'" in visitor.fill("/new-topic", status=400, topic="wrong", read_queues="many")
    assert "wrong name" in visitor.fill("/new-topic", status=400, topic="wrong name")
    assert not [name for name in admin.topics.names() if name.startswith("wrong")]


def test_a_change_does_not_create_a_topic(visitor: Visitor, admin: Admin):
    token = re.search(r'name="token" value="(\w+)"', visitor.get("/new-topic"))
    assert token is not None
    answer = visitor.http.post("/topics/no-such/change", data={"token": token[1], "permission": "rw"})
    assert answer.status_code == 404
    assert "no-such" not in admin.topics.names()


# --- groups


@pytest.fixture
def sales(broker: SyncBroker, admin: Admin) -> Iterator[str]:
    """A topic with 20 messages, of which the group `coupons` has consumed all, and `audit` none."""
    admin.topics.create("sales", queues=4)
    with Producer(broker.nameserver) as producer:
        for number in range(20):
            body = f'{{"order": {number}}}'.encode()
            producer.send(Message("sales", body, tag="paid" if number % 2 else "open", keys=f"s-{number}"))
    admin.groups.create("audit")
    admin.offsets.reset("audit", "sales", "first")
    admin.groups.create("coupons", retries_max=1)
    admin.offsets.reset("coupons", "sales", "last")
    yield "sales"
    admin.topics.delete("sales")


def test_a_group_shows_its_lag_and_is_reset_after_a_preview(visitor: Visitor, sales: str, admin: Admin):
    page = visitor.read("/groups/audit")
    assert "Lag 20 messages" in page
    assert "No consumer is connected. 20 messages wait." in page
    preview = visitor.read(f"/groups/audit/reset?topic={sales}&to=last")
    assert "20 messages will be skipped, 0 messages consumed again" in preview
    assert admin.groups.progress("audit", sales).lag == 20, "a preview changes nothing"
    done = visitor.fill(f"/groups/audit/reset?topic={sales}&to=last")
    assert f"The offsets of audit in {sales} are reset to the end of each queue." in done
    assert admin.groups.progress("audit", sales).lag == 0
    preview = visitor.read(f"/groups/audit/reset?topic={sales}&to=time&at=2001-01-01T00:00")
    assert "To 2001-01-01 00:00:00 UTC. 0 messages will be skipped, 20 messages consumed again" in preview
    visitor.fill(f"/groups/audit/reset?topic={sales}&to=time&at=2001-01-01T00:00")
    assert admin.groups.progress("audit", sales).lag == 20


def test_members_their_queues_and_their_mismatch_are_shown(visitor: Visitor, broker: SyncBroker, sales: str):
    one = Consumer(broker.nameserver, group="coupons", instance="one", topics={sales: "paid"})
    two = Consumer(broker.nameserver, group="coupons", instance="two", topics=sales)
    with one, two:
        wait_until(lambda: "Members differ in their subscription" in visitor.read("/groups/coupons"), "the mismatch")
        page = visitor.get("/groups/coupons")
        assert "Clustering" in text_of(page)
        member = re.search(r'href="(/groups/coupons/members/[^"]+)"', page)
        assert member is not None
        told = visitor.read(member[1])
        assert "Subscriptions" in told
        assert "PROP_CONSUMEORDERLY false" in told
        assert "It tells none" in told, "our client does not measure its rates, and zeros would be a lie"
        assert "thread " in visitor.read(f"{member[1]}?stack=1")
    assert "Failed." in visitor.read("/groups/coupons/members/nobody")


def test_a_group_is_created_changed_and_deleted(visitor: Visitor, admin: Admin):
    assert "Group bills is created." in visitor.fill("/new-group", group="bills", retries_max=3)
    assert "exists already" in visitor.fill("/new-group", status=400, group="bills")
    assert "Group bills is changed." in visitor.fill("/groups/bills/change", retries_max=5, enabled=None)
    (settings,) = admin.groups.get("bills")
    assert (settings.retries_max, settings.is_enabled, settings.may_broadcast) == (5, False, True)
    assert "bills" in visitor.read("/groups?q=BIL")
    assert "Type bills to confirm" in visitor.fill("/groups/bills/delete", status=400, confirm="")
    assert "Group bills is deleted." in visitor.fill("/groups/bills/delete", confirm="bills")
    assert "does not exist" in visitor.read("/groups/bills", 404)


def test_the_overview_has_the_groups_that_are_furthest_behind(broker: SyncBroker, sales: str):
    with running_console(broker.nameserver) as console:  # its first sweep sees the backlog
        visitor = Visitor(console.url)
        wait_until(lambda: f"audit 20 – {sales}" in visitor.read("/"), lambda: f"the backlog: {visitor.read('/')}")
        visitor.close()


# --- messages


def test_messages_are_found_by_time_key_and_id(visitor: Visitor, sales: str, admin: Admin):
    newest = visitor.read(f"/messages?topic={sales}")
    assert "20 of 20 were looked at" in newest
    assert newest.index("s-19") < newest.index("s-0 ")
    by_time = visitor.read(f"/messages?topic={sales}&by=time&tag=paid&text=order")
    assert "Searched 20 of 20 messages" in by_time
    assert "s-1 " in by_time
    assert "s-0 " not in by_time
    by_key = visitor.get(f"/messages?topic={sales}&by=key&words=s-7")
    assert "s-7" in by_key
    (message,) = admin.messages.by_key(sales, "s-7")
    by_id = visitor.read(f"/messages?topic={sales}&by=id&words={message.message_id}")
    assert "s-7" in by_id
    assert "s-7" in visitor.read(f"/messages?by=id&words={message.offset_id}")
    assert "No message was found." in visitor.read(f"/messages?topic={sales}&by=key&words=nothing")
    assert "Failed." in visitor.read(f"/messages?topic={sales}&by=id&words=nonsense")


def test_a_message_shows_its_body_and_who_consumed_it(visitor: Visitor, sales: str, admin: Admin):
    (message,) = admin.messages.by_key(sales, "s-7")
    place = f"topic={sales}&broker=broker-a&queue={message.queue_id}&offset={message.queue_offset}"
    page = visitor.read(f"/message?{place}")
    assert '{ "order": 7 }' in page
    assert "coupons Consumed, or passed" in page
    assert "audit Not consumed: no member is connected" in page
    assert "7b 22 6f 72 64 65 72" in visitor.read(f"/message?{place}&view=hex")
    raw = visitor.http.get(f"/message-body?{place}")
    assert raw.content == message.body
    assert raw.headers["content-disposition"].startswith("attachment")
    assert "There is no message at offset 99" in visitor.read(f"/message?topic={sales}&broker=broker-a&queue=0&offset=99", 404)


def test_a_search_goes_on_where_a_page_ended(visitor: Visitor, broker: SyncBroker, admin: Admin):
    admin.topics.create("many", queues=3)
    with Producer(broker.nameserver) as producer:
        for number in range(80):
            producer.send(Message("many", b"x", keys=f"m-{number}"))
    found, path, pages = list[str](), "/messages?topic=many&by=time", 0
    while path:
        page = visitor.get(path)
        found += re.findall(r"<td[^>]*>(m-\d+)</td>", page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following[1].replace("&amp;", "&") if following else ""
        pages += 1
    assert pages == 3
    assert sorted(found) == sorted(f"m-{number}" for number in range(80)), "each message is on one page"
    admin.topics.delete("many")


def test_a_page_reads_a_bounded_number_of_bytes(visitor: Visitor, broker: SyncBroker, admin: Admin):
    admin.topics.create("heavy", queues=1)
    with Producer(broker.nameserver, compression=None) as producer:
        for number in range(4):
            producer.send(Message("heavy", b"x" * 3_500_000, keys=f"h-{number}"))
    first = visitor.get("/messages?topic=heavy&by=time")
    assert re.findall(r"<td[^>]*>(h-\d)</td>", first) == ["h-0", "h-1", "h-2"]
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    assert re.findall(r"<td[^>]*>(h-\d)</td>", visitor.get(following[1].replace("&amp;", "&"))) == ["h-3"]
    admin.topics.delete("heavy")


# --- dead letters and what waits


def test_dead_letters_are_filtered_exported_and_delivered_again(visitor: Visitor, broker: SyncBroker, admin: Admin):
    admin.groups.create("fragile", retries_max=0)
    admin.topics.create("jobs")
    with Producer(broker.nameserver) as producer:
        for number in range(3):
            producer.send(Message("jobs", f"job {number}".encode(), keys=f"j-{number}"))
    failing = True
    seen: list[bytes] = []

    def handle(message: object) -> None:
        if failing:
            raise ValueError("not now")
        seen.append(message.body)  # type: ignore[attr-defined]

    consumer = Consumer(broker.nameserver, group="fragile", start="first")
    consumer.on("jobs")(handle)
    with consumer:
        broker.messages("%DLQ%fragile", at_least=3, timeout_s=60)
        failing = False
        wait_until(lambda: "fragile 3" in visitor.read("/dead-letters"), "the broker has registered the topic")
        page = visitor.get("/dead-letters/fragile?text=job+1")
        assert "Searched 3 of 3 letters" in text_of(page)
        places = re.findall(r'name="letter" value="([^"]+)"', page)
        assert len(places) == 1
        lines = visitor.http.get("/dead-letters/fragile/export?format=jsonl").text.splitlines()
        assert len(lines) == 3
        assert visitor.http.get("/dead-letters/fragile/export?format=csv&text=job+2").text.count("job 2") == 1
        done = visitor.fill("/dead-letters/fragile?text=job+1", "resend", letter=places[0])
        assert "1 of 1 letters will be delivered to fragile again" in done
        broker.advance(2)
        wait_until(lambda: seen == [b"job 1"], lambda: f"the letter is consumed, not {seen}")
    assert "Choose the letters" in visitor.fill("/dead-letters/fragile", "resend", status=400)


def test_delays_and_half_messages_that_wait_are_shown(visitor: Visitor, broker: SyncBroker):
    with Producer(broker.nameserver) as producer:
        producer.send(Message("later", b"x", delay_level=5))
    assert re.search(r"5 1m 1 0", visitor.read("/waiting"))


def test_a_transaction_that_waits_is_shown(visitor: Visitor, broker: SyncBroker):
    with TransactionProducer(broker.nameserver, group="shop", check=lambda *_: Outcome.UNKNOWN) as producer:
        producer.transaction(Message("paid-orders", b"half"), lambda *_: Outcome.UNKNOWN)
    wait_until(lambda: "At most 1 half message wait" in visitor.read("/waiting"), "the broker has registered the topic")
    assert "paid-orders shop" in visitor.read("/waiting")


def test_the_trace_of_a_message_is_shown(visitor: Visitor, broker: SyncBroker, admin: Admin):
    admin.topics.create("traced")
    with Producer(broker.nameserver, group="traced-shop", trace=True) as producer:
        receipt = producer.send(Message("traced", b"x", keys="t-1"))
    place = f"topic=traced&broker=broker-a&queue={receipt.queue.queue_id}&offset={receipt.queue_offset}"
    wait_until(lambda: re.search(r"UTC Pub traced-shop", visitor.read(f"/message?{place}")) is not None, "the trace")
    assert "No client has written a trace" not in visitor.read(f"/message?{place}")


# --- what no page is


def test_pages_that_do_not_exist(visitor: Visitor):
    assert "There is no page /nowhere." in visitor.read("/nowhere", 404)
    assert visitor.http.put("/topics").status_code in (404, 405)
    assert visitor.http.get("/assets/nothing.js").status_code == 404
    assert visitor.http.get("/assets/..%2fserver.py").status_code == 404
    assert visitor.http.get("/healthz").text == "The console serves.\n"


def test_a_console_stops_while_a_page_is_open(console: ConsoleServer):
    with sync.LocalBroker() as other, running_console(other.nameserver) as second:
        visitor = Visitor(second.url)
        assert visitor.read("/topics")
        visitor.close()
    assert console.port != second.port
