"""A record as a run would write it, with round figures: Apache's broker takes ten times what ours takes, Kafka five times."""

from __future__ import annotations

from bench.suite.loads import JAVA, LOADS
from bench.suite.record import APACHE, KAFKA, OURS, Lifecycle, Machine, Result, Round, RunRecord

COST = {OURS: 1.0, APACHE: 10.0, KAFKA: 5.0}


def sample_round(cost: float, has_latency: bool = True, refused: int = 0) -> Round:
    latencies = {"p50_us": 50 * cost, "p99_us": 400 * cost, "p999_us": 3_000 * cost} if has_latency else {}
    return Round(
        messages=100_000, seconds=cost, cpu_s=0.5 * cost, requests=100_000, refused=refused, client_cpu_s=0.5, **latencies
    )


def sample_record() -> RunRecord:
    results = [
        Result(load.name, server, [sample_round(cost, load.source != JAVA), sample_round(2 * cost, load.source != JAVA)])
        for load in LOADS
        for server, cost in COST.items()
        if server != KAFKA or load.for_kafka
    ]
    lives = [
        Lifecycle(OURS, 0.5, 45.0, 0.003, 120.0, 0.8, 300_000),
        Lifecycle(APACHE, 6.0, 400.0, 0.02, 1_400.0, 9.0, 300_000),
        Lifecycle(KAFKA, loaded_mb=800.0),
    ]
    machine = Machine("a processor", 2, 24.0, "6.1", "3.11.7", 'openjdk version "17"', compiled=True)
    return RunRecord("2026-01-02 03:04", 700.0, "abc1234", machine, results, lives)
