"""What a run measured, as values that are stored in JSON. Tables and charts are made from a record alone."""

from __future__ import annotations

from pathlib import Path

import msgspec

OURS, APACHE, KAFKA = "skyrocket", "Apache", "Kafka"
SERVERS = (OURS, APACHE, KAFKA)


class Round(msgspec.Struct, omit_defaults=True):
    """One load on one server for a few seconds. Latencies are None where the source of the load does not measure them."""

    messages: int
    seconds: float
    cpu_s: float  # of the server's process
    requests: int = 0
    refused: int = 0
    client_cpu_s: float = 0.0  # of the process that made the load
    p50_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    codes: dict[str, int] = {}  # refusals by response code

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.messages * 1e6

    @property
    def client_share(self) -> float:
        """The client's share of the CPU time that both processes took."""
        both_s = self.cpu_s + self.client_cpu_s
        return self.client_cpu_s / both_s if both_s else 0.0


class Result(msgspec.Struct, omit_defaults=True):
    """All rounds of a load on a server. The best round counts for each figure: the others measured other processes."""

    load: str
    server: str
    rounds: list[Round] = []
    failure: str = ""

    @property
    def rate(self) -> float:
        return max(each.rate for each in self.rounds)

    @property
    def cpu_us(self) -> float:
        return min(each.cpu_us for each in self.rounds)

    @property
    def p50(self) -> float:
        return self.calmest.p50_us or 0.0

    @property
    def refused(self) -> float:
        """The largest share of requests that a round had refused."""
        return max(each.refused / max(1, each.requests) for each in self.rounds)

    @property
    def quickest(self) -> Round:
        return max(self.rounds, key=lambda each: each.rate)

    @property
    def calmest(self) -> Round:
        """The round with the lowest median latency."""
        return min(self.rounds, key=lambda each: each.p50_us or 0.0)


class Lifecycle(msgspec.Struct, omit_defaults=True):
    """A server's start, its costs at rest, and its start after kill -9."""

    server: str
    start_s: float = 0.0
    rest_mb: float = 0.0
    rest_cpu_share: float = 0.0
    loaded_mb: float = 0.0
    recovery_s: float = 0.0
    recovered_messages: int = 0
    failure: str = ""


class Row(msgspec.Struct, omit_defaults=True):
    """A figure of `python -m bench`, as it prints it."""

    name: str
    value: str
    remark: str = ""


class Profile(msgspec.Struct, omit_defaults=True):
    """Where our broker's CPU time went under a load."""

    load: str
    samples: int
    kinds: dict[str, int] = {}  # samples of each kind (`profile.KINDS`)


class Machine(msgspec.Struct, omit_defaults=True):
    processor: str = ""
    cores: int = 0
    memory_gb: float = 0.0
    kernel: str = ""
    python: str = ""
    java: str = ""
    compiled: bool = False


class RunRecord(msgspec.Struct, omit_defaults=True):
    started: str = ""  # date and time, UTC
    took_s: float = 0.0
    commit: str = ""
    machine: Machine = msgspec.field(default_factory=Machine)
    results: list[Result] = []
    lifecycles: list[Lifecycle] = []
    growth: list[Row] = []
    profiles: list[Profile] = []
    left_out: list[str] = []  # what was not measured, and why

    def find(self, load: str, server: str) -> Result | None:
        """The result of a load on a server, when there is a round to report."""
        return next((each for each in self.results if each.load == load and each.server == server and each.rounds), None)


def read_record(path: Path) -> RunRecord:
    return msgspec.json.decode(path.read_bytes(), type=RunRecord)


def write_record(path: Path, record: RunRecord) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
