"""Each example is run as a user runs it: a process, against a broker."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from skyrocket.cli.broker import _ready
from skyrocket.testing import sync
from tests.client.servers import apache_servers
from tests.support.ports import free_port
from tests.support.spark.java import java_options
from tests.support.waiting import WAIT_S_MAX, wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENDS_S_MAX = 600

RUNS = {
    "registration": (["--users", "500"], [r"500 users registered", r"500 coupons were granted, 0 of them twice\."]),
    "transaction": ([], [r"plain: shipped", r"broken: not booked", r"silent: the broker asks", r"silent: shipped"]),
    "ordered": (["--orders", "40"], [r"40 of 40 orders went through", r"0 events came out of order"]),
    "gateway": (
        ["--requests", "200"],
        [r"[1-9]\d* requests were answered, [1-9]\d* refused with 503", r"skipped [1-9]\d* that", r"\b0 answers were wrong"],
    ),
    "spark_sales": (["--sales", "1200"], [r"1200 sales came to", r"The results add up to \d+ cents from 1200 sales"]),
}
# A stream continues in its folder, and another folder of the same name is another stream; without one, each run has its own. One
# run takes as long as those of all other examples together, so each server sees a part.
SALES_FOLDERS = {"ours": ("one/sales", "one/sales", "two/sales"), "apache": ("", "")}


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def nameserver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Questions about transactions come after a second instead of half a minute."""
    if request.param == "ours":
        with sync.LocalBroker({"transactionTimeOut": "500", "transactionCheckInterval": "500"}) as running:
            yield running.nameserver
    else:
        with apache_servers(tmp_path_factory.mktemp("apache")) as servers:
            yield servers.nameserver


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    environ = {**os.environ, **(quick_spark() if name.startswith("spark_") else {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S_MAX, check=False, env=environ)


def quick_spark() -> dict[str, str]:
    """The environment in which Spark's Java starts from an archive of its classes, as in tests/spark."""
    config = {"spark.driver.extraJavaOptions": java_options(), "spark.sql.shuffle.partitions": "2"}
    words = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in config.items()]
    return {"PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"])}


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*RUNS, "web_app"}


@pytest.mark.parametrize("name", RUNS)
def test_example_does_what_it_says_and_can_be_run_again(
    nameserver: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
):
    arguments, said = RUNS[name]
    server = request.node.callspec.params["nameserver"]
    folders = SALES_FOLDERS[server] if name == "spark_sales" else ("", "")
    for attempt, folder in zip(("first", "second", "third"), folders, strict=False):
        more = ["--folder", str(tmp_path / folder)] if folder else []
        done = run(name, "--namesrv", nameserver, *arguments, *more)
        assert done.returncode == 0, f"the {attempt} run failed:\n{done.stdout}{done.stderr}"
        for pattern in said:
            assert re.search(pattern, done.stdout), f"{pattern!r} is not in what the {attempt} run said:\n{done.stdout}"
        assert "Traceback" not in done.stderr


@contextmanager
def web_app(nameserver: str) -> Iterator[httpx.Client]:
    """The application in a process of its own, and a visitor."""
    port = free_port()
    command = [sys.executable, str(EXAMPLES / "web_app.py"), "--namesrv", nameserver, "--port", str(port)]
    with subprocess.Popen(command) as process, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S_MAX) as visitor:
        try:
            wait_until(lambda: answers(visitor), "the application answers")
            yield visitor
        finally:
            process.terminate()
            process.wait(WAIT_S_MAX)


def answers(visitor: httpx.Client) -> bool:
    try:
        return visitor.get("/orders/none").status_code == 404
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("attempt", ["first", "second"])
def test_web_application_takes_orders_and_can_be_run_again(nameserver: str, attempt: str):
    with web_app(nameserver) as visitor:
        numbers = [visitor.post("/orders", params={"item": item}).json()["number"] for item in ("tea", "cake")]
        for number, item in zip(numbers, ("tea", "cake"), strict=True):
            ready = f"{item} is ready"
            wait_until(lambda: visitor.get(f"/orders/{number}").json()["state"] == ready, f"{item} is ready")  # noqa: B023


def test_web_application_answers_503_without_a_broker():
    with sync.LocalBroker() as broker, web_app(broker.nameserver) as visitor:
        broker.close()
        answer = visitor.post("/orders", params={"item": "tea"})
        assert answer.status_code == 503
        assert answer.json()["detail"].startswith("The order could not be taken: ")


def test_greeting_of_run_names_an_example():
    greeting = _ready("127.0.0.1:9876", "127.0.0.1:10911", Path("data"), 0.1)
    (named,) = re.findall(r"examples/(\w+)\.py", greeting)
    assert named in RUNS
