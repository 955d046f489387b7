"""Cost of an SQL92 filter per message, compared with Apache's own filter classes in a warm JVM (elapsed time there)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.support.apache.packages import run_java

from bench import Benchmark, Figure
from skyrocket.broker.pull.sql.filter import SqlFilter
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record, encode_record

JAVA = Path(__file__).resolve().parents[1] / "tests" / "interop" / "java" / "SqlExpressions.java"
EXPRESSIONS = {
    "two terms": "a > 5 AND region = 'eu'",
    "a text": "region = 'eu'",
    "a list": "region IN ('eu', 'us', 'cn', 'jp', 'br')",
    "six terms": "a BETWEEN 1 AND 9 AND region <> 'us' AND (kind IS NULL OR price > 9.5) AND TAGS STARTSWITH 'r'",
}
PROPERTIES = {
    "KEYS": "order-1234",
    "UNIQ_KEY": "7F0000010A2B18B4AAC2123456780000",
    "WAIT": "true",
    "TAGS": "red",
    "a": "7",
    "region": "eu",
    "CLUSTER": "DefaultCluster",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
}


def record(**changes: str) -> memoryview:
    return memoryview(encode_record(Record("orders", bytes(1024), encode_properties({**PROPERTIES, **changes}))))


WANTED, OTHER = record(), record(a="3")

BENCHMARKS = [
    *(
        Benchmark(f"filter a message of 1 KiB, {name}", partial(SqlFilter(sql).passes, WANTED))
        for name, sql in EXPRESSIONS.items()
    ),
    Benchmark(
        "filter a message of 1 KiB, two terms, the first false", partial(SqlFilter(EXPRESSIONS["two terms"]).passes, OTHER)
    ),
    Benchmark("parse an expression of two terms", partial(SqlFilter, EXPRESSIONS["two terms"])),
]


def figures() -> Iterator[Figure]:
    if not shutil.which("java"):
        return
    for name, sql in EXPRESSIONS.items():
        took_ns = float(run_java(JAVA, sql.encode().hex(), bytes(WANTED).hex()))
        yield Figure(f"Apache's classes, {name}", f"{took_ns / 1000:.2f} µs")
