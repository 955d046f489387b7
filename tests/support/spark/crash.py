"""Spark jobs to be killed: a driver as a separate process, with its JVM and workers, and a sender that runs meanwhile.

    driver = SparkDriver("tests.support.spark.stream_to_parquet", {"nameserver": …}, tmp_path / "driver.log")
    driver.await_word(READY)                  # the job prints a word for each event
    driver.kill()                             # the Python process, its JVM, their workers, all at once, with SIGKILL
    driver.start()                            # the same job over the same files
    driver.kill_worker(chance)                # one of Spark's Python processes
    driver.finish()                           # asks the job to end; its exit code must be 0

Moments are drawn from a seed. `SKYROCKET_SPARK_CRASHES` says how many crashes each test has, `SKYROCKET_SPARK_SEED` the seed.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from skyrocket.client import sync as client
from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message
from tests.support.spark.java import OPTIONS, java_options
from tests.support.spark.streams import Row
from tests.support.waiting import WAIT_S_MAX

SEED = int(os.environ.get("SKYROCKET_SPARK_SEED", "8"))
CRASHES = int(os.environ.get("SKYROCKET_SPARK_CRASHES", "1"))
READY = "READY"  # the query runs
FINISH = "FINISH"  # said to a job: finish what there is, and end
START_S_MAX = 600.0
FINISH_S_MAX = 600.0
REPOSITORY = Path(__file__).resolve().parents[3]

T = TypeVar("T")
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# --- the driver


class SparkDriver:
    """Runs `module` with a JSON object as its argument. The module prints one word per line, and reads FINISH from its input."""

    def __init__(self, module: str, arguments: Mapping[str, Any], log: Path) -> None:
        self._command = [sys.executable, "-m", module, json.dumps(arguments)]
        self._log = log
        self._words_before = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        self._words_before = len(self._lines())
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env={**os.environ, OPTIONS: java_options(), "PYTHONUNBUFFERED": "1"},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 one system call: it takes no lock that another thread may hold
            )

    def await_word(self, word: str, timeout_s: float = START_S_MAX) -> None:
        """Wait until the process has printed this word since its last start."""
        assert self.process is not None
        deadline = time.monotonic() + timeout_s
        while word not in self._lines()[self._words_before :]:
            assert self.process.poll() is None, f"the driver ended with {self.process.returncode}:\n{self.read_log()}"
            assert time.monotonic() < deadline, f"the driver did not say {word} in {timeout_s} s:\n{self.read_log()}"
            time.sleep(0.05)

    def words(self) -> set[str]:
        """Return the lines that the process has printed since its last start."""
        return set(self._lines()[self._words_before :])

    @property
    def is_over(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        """Kill the process and its descendants. They are listed first, since a kill detaches them from their parent."""
        assert self.process is not None
        if self.process.poll() is None:
            below = descendants(self.process.pid)
            self.process.kill()
            for pid in below:
                _kill(pid)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def kill_worker(self, chance: random.Random) -> str | None:
        """Kill one of Spark's Python processes: a task's worker, or the planner of a stream. Return its command line.

        Return None if there is no such process now.
        """
        assert self.process is not None
        workers = [pid for pid in descendants(self.process.pid) if _is_worker(pid)]
        if not workers:
            return None
        pid = chance.choice(workers)
        what = _command_line(pid)
        _kill(pid)
        return what

    def finish(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{FINISH}\n".encode())
        self.process.stdin.flush()
        try:
            code = self.process.wait(FINISH_S_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver does not finish:\n{self.read_log()}") from None
        assert code == 0, f"the driver ended with {code}:\n{self.read_log()}"

    def read_log(self, lines: int = 60) -> str:
        return "\n".join(self._lines()[-lines:])

    def _lines(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines() if self._log.exists() else []


def descendants(pid: int) -> list[int]:
    """Return all current descendants of this process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _parent(int(entry.name))
            if parent is not None:
                parents.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None  # it has ended
    return int(stat.rpartition(")")[2].split()[1])


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _is_worker(pid: int) -> bool:
    """Spark's daemon forks its workers, so they have its name; only the daemon's children do any work."""
    line = _command_line(pid)
    if "python_streaming_source_runner" in line:
        return True
    parent = _parent(pid)
    return "pyspark.daemon" in line and parent is not None and "pyspark.daemon" in _command_line(parent)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # the process has already ended
        os.kill(pid, signal.SIGKILL)


# --- the sender


class Sender:
    """Sends numbered messages of all sizes, one by one, in a thread, until it is stopped.

    Each is sent once. Acknowledged messages are recorded with queue and offset; the others may or may not be stored.
    """

    def __init__(self, nameserver: str, topic: str, seed: int, per_s: int = 100) -> None:
        self.acknowledged: Counter[Row] = Counter()
        self.unknown: set[bytes] = set()
        self._nameserver, self._topic, self._pause_s = nameserver, topic, 1 / per_s
        self._chance = random.Random(f"sender {seed}")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send, name="sender", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive(), "the sender does not stop"

    def _send(self) -> None:
        with client.Producer(self._nameserver, retries=0, timeout_ms=3_000) as producer:
            number = 0
            while not self._stopped.wait(self._pause_s):
                body = b"%d " % number + self._chance.randbytes(self._chance.choice([1, 10, 300, 300, 3_000]))
                number += 1
                try:
                    receipt = producer.send(Message(self._topic, body))
                except ClientError:
                    self.unknown.add(body)
                else:
                    at = receipt.queue
                    self.acknowledged[Row(self._topic, at.broker_name, at.queue_id, receipt.queue_offset, body)] += 1


def topic_content(nameserver: str, topic: str) -> Counter[Row]:
    """Return everything in the topic's queues, read by a plain consumer."""
    rows: Counter[Row] = Counter()
    with client.PullConsumer(nameserver, group="counts-it-all") as consumer:
        queues = consumer.queues(topic)
        ends = {queue: consumer.end_offset(queue) for queue in queues}
        consumer.assign(queues)
        for queue in queues:
            consumer.seek(queue, 0)
        deadline = time.monotonic() + WAIT_S_MAX
        while sum(rows.values()) < sum(ends.values()):
            assert time.monotonic() < deadline, f"only {sum(rows.values())} of {sum(ends.values())} messages came"
            for message in consumer.poll():
                rows[Row(topic, message.broker_name, message.queue_id, message.queue_offset, bytes(message.body))] += 1
    return rows


def check_once(output: Counter[Row], sender: Sender, content: Counter[Row]) -> None:
    """Check that each acknowledged message came out once, unchanged, and nothing else but sends with an unknown outcome."""
    repeated = [row[:4] for row, times in output.items() if times > 1]
    assert not repeated, f"{len(repeated)} messages came more than once, such as {repeated[:3]}"
    lost = [row[:4] for row in sender.acknowledged if row not in output]
    assert not lost, f"{len(lost)} of {len(sender.acknowledged)} acknowledged messages are lost, such as {lost[:3]}"
    strange = [row[:4] for row in output if row not in sender.acknowledged and row.body not in sender.unknown]
    assert not strange, f"{len(strange)} messages came that were never sent, such as {strange[:3]}"
    assert output == content, "what came out is what is in the topic"


def ask_until_answered(ask: Callable[[], T], timeout_s: float = START_S_MAX) -> T:
    """Ask a cluster again until it is back, and return its answer."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except ClientError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
