"""The loads for Kafka, made with librdkafka: `python -m bench.suite.kafka_client MODE ADDRESS TOPIC SECONDS [--option value …]`.

Runs as a process of its own, as the generator in C does, and prints the same line at its end. Modes and options are the
generator's:

    send       `connections` producers, each with `window` requests in flight, one message a request
    batch      the same, with up to 32 messages a request
    pull       `connections` consumers, each in its own group, that read the newest messages again and again
    delivery   a producer sends `pace` messages a second; a latency ends when the consumer has the message

A request that waits for its answer is a thread's `produce` and `poll`, so the rates of many sync clients are bounded by Python.
The CPU time of Kafka's process is not.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from bench.suite.loads import BATCH, BODY_BYTES, MESSAGES_MAX, QUEUES

FLUSHED = "Flushed"  # a topic with this ending is on the disk before Kafka answers
READY_S_MAX = 30.0


class Tally:
    """What all threads of a load have done, and the latencies in seconds."""

    def __init__(self, seconds: float) -> None:
        self.started_s = time.perf_counter()
        self.stop_s = self.started_s + seconds
        self.latencies_s: list[float] = []
        self.requests = self.refused = 0

    def may_go_on(self) -> bool:
        return time.perf_counter() < self.stop_s and self.requests < MESSAGES_MAX

    def line(self) -> str:
        took_s, ordered = time.perf_counter() - self.started_s, sorted(self.latencies_s) or [0.0]
        shares = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}
        percentiles = {name: ordered[int(share * (len(ordered) - 1))] * 1e6 for name, share in shares.items()}
        counted = {"requests": self.requests, "messages": self.requests - self.refused, "refused": self.refused}
        return json.dumps({**counted, "seconds": took_s, "cpu_s": time.process_time(), **percentiles})


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Cluster:
    def __init__(self, address: str, topic: str) -> None:
        import confluent_kafka  # noqa: PLC0415 — only this process has it on its path
        import confluent_kafka.admin  # noqa: PLC0415

        self.library: Any = confluent_kafka
        self.address, self.topic = address, topic
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
        config = {"flush.messages": "1"} if topic.endswith(FLUSHED) else {}
        if topic in admin.list_topics(timeout=READY_S_MAX).topics:
            return
        for future in admin.create_topics([confluent_kafka.admin.NewTopic(topic, QUEUES, 1, config=config)]).values():
            if error := future.exception(READY_S_MAX):
                assert "already exists" in str(error), error
        self._wait_for_leaders(admin)

    def _wait_for_leaders(self, admin: Any) -> None:
        """Until each partition of a fresh topic has a leader; a produce before that waits for the next refresh of metadata."""
        deadline_s = time.monotonic() + READY_S_MAX
        while True:
            known = admin.list_topics(self.topic, timeout=READY_S_MAX).topics[self.topic].partitions
            if len(known) == QUEUES and all(each.leader >= 0 for each in known.values()):
                return
            assert time.monotonic() < deadline_s, f"the partitions of {self.topic} have no leader"
            time.sleep(0.05)

    def producer(self, in_flight: int, batch: int) -> Any:
        """`acks=1` is what ASYNC_FLUSH of RocketMQ gives: the answer comes when the message is in the log."""
        settings = {
            "acks": 1,
            "batch.num.messages": batch,
            "max.in.flight": min(in_flight, 1_000_000),
            "linger.ms": 5 if batch > 1 else 0,
        }
        made = self.library.Producer({"bootstrap.servers": self.address, **settings})
        made.list_topics(self.topic, timeout=READY_S_MAX)
        return made

    def consumer(self, group: str, offsets: dict[int, int]) -> Any:
        settings = {"bootstrap.servers": self.address, "group.id": group, "enable.auto.commit": True}
        made = self.library.Consumer(settings)
        made.assign([self.library.TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()])
        return made

    def ends(self) -> dict[int, int]:
        probe = self.consumer("bench-probe", {})
        partitions = [self.library.TopicPartition(self.topic, partition) for partition in range(QUEUES)]
        ends = {each.partition: probe.get_watermark_offsets(each, timeout=READY_S_MAX)[1] for each in partitions}
        probe.close()
        return ends


def send(cluster: Cluster, seconds: float, connections: int, window: int, batch: int) -> Tally:
    body = bytes(range(256)) * (BODY_BYTES // 256)
    producers = [cluster.producer(window, batch) for _ in range(connections)]
    tally = Tally(seconds)

    def work(number: int) -> None:
        producer, waiting = producers[number], 0

        def on_delivery(error: Any, message: Any) -> None:
            nonlocal waiting
            waiting -= 1
            tally.refused += error is not None
            tally.latencies_s.append(message.latency() or 0.0)

        while tally.may_go_on():
            while waiting < window * batch and tally.may_go_on():
                tally.requests += 1
                waiting += 1
                producer.produce(cluster.topic, body, partition=tally.requests % QUEUES, on_delivery=on_delivery)
                producer.poll(0)
            producer.poll(0.05)
        producer.flush(READY_S_MAX)

    in_threads(connections, work)
    return tally


def pull(cluster: Cluster, seconds: float, connections: int, span: int) -> Tally:
    ends = cluster.ends()
    firsts = {partition: max(0, end - span) for partition, end in ends.items()}
    consumers = [cluster.consumer(f"bench-{number}", firsts) for number in range(connections)]
    tally = Tally(seconds)

    def work(number: int) -> None:
        consumer, left = consumers[number], sum(ends.values()) - sum(firsts.values())
        while time.perf_counter() < tally.stop_s:
            got = consumer.consume(500, timeout=0.5)
            tally.requests += len(got)
            left -= len(got)
            if left <= 0:
                consumer.assign([cluster.library.TopicPartition(cluster.topic, part, first) for part, first in firsts.items()])
                left = sum(ends.values()) - sum(firsts.values())
        consumer.close()

    in_threads(connections, work)
    return tally


def deliver(cluster: Cluster, seconds: float, pace: int) -> Tally:
    producer, consumer = cluster.producer(1_000_000, 1), cluster.consumer("bench-delivery", cluster.ends())
    consumer.poll(0.5)
    tally = Tally(seconds)
    sent = 0

    def work(number: int) -> None:
        nonlocal sent
        if number == 0:
            while (now_s := time.perf_counter()) < tally.stop_s:
                producer.produce(cluster.topic, f"{now_s:.9f} ".encode().ljust(BODY_BYTES, b"x"), partition=sent % QUEUES)
                producer.poll(0)
                sent += 1
                time.sleep(max(0.0, tally.started_s + sent / pace - time.perf_counter()))
            producer.flush(READY_S_MAX)
        else:
            while time.perf_counter() < tally.stop_s or tally.requests < sent:
                message = consumer.poll(0.5)
                if message is None:
                    if time.perf_counter() > tally.stop_s + READY_S_MAX:
                        break
                    continue
                tally.latencies_s.append(time.perf_counter() - float(message.value().split(b" ", 1)[0]))
                tally.requests += 1

    in_threads(2, work)
    consumer.close()
    return tally


def main(words: list[str]) -> None:
    mode, address, topic, seconds = words[:4]
    options = {name.removeprefix("--"): int(value) for name, value in zip(words[4::2], words[5::2], strict=True)}
    cluster, seconds_s = Cluster(address, topic), float(seconds)
    if mode == "pull":
        tally = pull(cluster, seconds_s, options["connections"], options["span"])
    elif mode == "delivery":
        tally = deliver(cluster, seconds_s, options["pace"])
    else:
        tally = send(cluster, seconds_s, options["connections"], options["window"], BATCH if mode == "batch" else 1)
    print(tally.line(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
