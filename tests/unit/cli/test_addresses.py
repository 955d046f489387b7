"""Addresses of servers that commands start: which one clients are told, which ports are taken, where nameservers are."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from skyrocket.net.local_address import reachable_address
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from tests.support.apache.cluster import send_request
from tests.support.ports import free_port
from tests.support.processes.address_server import AddressServer
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketNameserver, SkyrocketProcess, answers, registered
from tests.support.waiting import wait_until

SMALL = [text for key, value in SMALL_STORE.items() for text in ("--set", f"{key}={value}")]

ACCESS = ["--set", "authenticationEnabled=true"]
ACCESS += ["--set", 'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"s3cret"}']


def skyrocket(*arguments: str, cwd: Path, before: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "skyrocket", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def reachable() -> str:
    """The address of this machine that others can connect to; a machine without one skips the test."""
    found = reachable_address()
    if found is None:
        pytest.skip("this machine has no address but loopback")
    return found


# --- all addresses


def test_run_on_all_addresses_registers_one_that_clients_can_reach_and_prints_it(tmp_path: Path):
    names, port, address = free_port(), free_port(-2, 1), reachable()
    ports = ["--namesrv-port", str(names), "--port", str(port)]
    arguments = ["run", "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--insecure", *ports, *SMALL]
    with SkyrocketProcess(
        "run", tmp_path, arguments, lambda: answers(port) and bool(registered(f"127.0.0.1:{names}"))
    ) as process:
        assert registered(f"127.0.0.1:{names}") == [f"{address}:{port}"]
        assert send_request((address, port), Command(RequestCode.GET_BROKER_CONFIG, opaque=1)) is not None
        sent = skyrocket("send", "orders", "--body", "x", "--json", "-n", f"{address}:{names}", cwd=tmp_path)
        assert '"status":"OK"' in sent.stdout, sent.stderr
        assert '"offsetId":"00000000' not in sent.stdout, "message ids have the address too"
        wait_until(lambda: "is ready" in process.log_tail(), "the line with the addresses")
        assert f"nameserver {address}:{names}, broker {address}:{port}" in process.log_tail()
        assert (
            f"It listens on 0.0.0.0, and clients connect to {address}; brokerIP1 chooses another address." in process.log_tail()
        )


def test_a_broker_that_listens_on_all_addresses_by_its_file_registers_one_that_clients_can_reach(tmp_path: Path):
    port, address = free_port(-2, 1), reachable()
    with SkyrocketNameserver(tmp_path / "names") as names:
        config = tmp_path / "broker.conf"
        lines = [f"{key}={value}" for key, value in SMALL_STORE.items()]
        lines += [f"storePathRootDir={tmp_path}/store", "bindAddress=0.0.0.0", f"listenPort={port}"]
        config.write_text("\n".join([*lines, f"namesrvAddr={names.nameserver}"]))
        with SkyrocketProcess(
            "broker", tmp_path, ["broker", "-c", str(config), "--insecure"], lambda: bool(registered(names.nameserver))
        ):
            assert registered(names.nameserver) == [f"{address}:{port}"]


def test_broker_ip1_wins_over_the_chosen_address(tmp_path: Path):
    names, port = free_port(), free_port(-2, 1)
    arguments = ["run", "--host", "0.0.0.0", "--insecure", "--namesrv-port", str(names), "--port", str(port)]
    arguments += ["--set", "brokerIP1=127.0.0.2", *SMALL]
    with SkyrocketProcess("run", tmp_path, arguments, lambda: bool(registered(f"127.0.0.1:{names}"))):
        assert registered(f"127.0.0.1:{names}") == [f"127.0.0.2:{port}"]


@pytest.mark.parametrize("arguments", [["run", "--host", "0.0.0.0"], ["broker", "--set", "bindAddress=0.0.0.0"]])
def test_without_any_such_address_the_start_is_refused(tmp_path: Path, arguments: list[str]):
    alone = ("unshare", "--net", "--map-root-user")
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow a network namespace without interfaces")
    done = skyrocket(*arguments, "--insecure", cwd=tmp_path, before=alone)
    assert done.returncode == 2
    assert (
        "bindAddress is 0.0.0.0, and this machine has no address that other machines could connect to. Set brokerIP1"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_no_client_is_told_to_connect_to_all_addresses(tmp_path: Path):
    done = skyrocket("broker", "--set", "brokerIP1=0.0.0.0", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "brokerIP1 is 0.0.0.0, to which no client can connect. Set it to an address of this machine.\n",
    )


def test_a_host_name_is_an_address(tmp_path: Path):
    names, port = free_port(), free_port(-2, 1)
    arguments = ["run", "--host", "localhost", "--namesrv-port", str(names), "--port", str(port), *SMALL]
    with SkyrocketProcess("run", tmp_path, arguments, lambda: bool(registered(f"127.0.0.1:{names}"))) as process:
        assert registered(f"127.0.0.1:{names}") == [f"localhost:{port}"]
        process.stop()
    done = skyrocket("broker", "--set", "brokerIP1=no-such-host.invalid", "--set", "listenPort=0", *SMALL, cwd=tmp_path)
    assert done.returncode == 2
    assert "brokerIP1 is 'no-such-host.invalid', which has no address" in done.stderr
    assert "Traceback" not in done.stderr


# --- who can use it


@pytest.mark.parametrize(
    ("arguments", "owner"),
    [
        (["run", "--host", "0.0.0.0"], "The broker"),
        (["run", "--host", "0.0.0.0", "--brokers", "2"], "The nameserver"),
        (["broker", "--set", "bindAddress=0.0.0.0"], "The broker"),
        (["broker", "--set", "bindAddress=::"], "The broker"),
        (["namesrv", "--host", "0.0.0.0"], "The nameserver"),
        (
            ["run", "--host", "0.0.0.0", "--set", "authenticationEnabled=true", "--set", "haSecretPath=ha.secret"],
            "The nameserver",
        ),
    ],
    ids=" ".join,
)
def test_a_server_that_strangers_could_use_needs_insecure_spelled_out(tmp_path: Path, arguments: list[str], owner: str):
    done = skyrocket(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{owner} listens on " in done.stderr
    assert "anyone who can connect can read, write and delete" in done.stderr
    assert "or give --insecure" in done.stderr
    assert "Traceback" not in done.stderr


def test_insecure_is_logged_at_each_start(tmp_path: Path):
    names, port = free_port(), free_port(-2, 1)
    arguments = ["run", "--host", "0.0.0.0", "--insecure", "--namesrv-port", str(names), "--port", str(port), *SMALL]
    for _ in range(2):
        with SkyrocketProcess("run", tmp_path, arguments, lambda: bool(registered(f"127.0.0.1:{names}"))) as process:
            assert "The broker listens on 0.0.0.0 without access control" in process.log_tail()
            assert "The nameserver listens on 0.0.0.0 without access control" in process.log_tail()
            process.stop()


def test_a_server_with_access_control_may_listen_everywhere(tmp_path: Path):
    names, port = free_port(), free_port(-2, 1)
    secret = tmp_path / "ha.secret"
    secret.write_text("what master and slaves know")
    arguments = ["run", "--host", "0.0.0.0", "--namesrv-port", str(names), "--port", str(port), *SMALL, *ACCESS]
    arguments += ["--set", f"haSecretPath={secret}"]
    with SkyrocketProcess("run", tmp_path, arguments, lambda: bool(registered(f"127.0.0.1:{names}"))) as process:
        assert "without access control" not in process.log_tail()
        assert "without a secret" not in process.log_tail()


@pytest.mark.parametrize("more", [[], ["--brokers", "2"]], ids=["one broker", "two brokers"])
def test_access_control_alone_does_not_close_the_ha_port(tmp_path: Path, more: list[str]):
    ports = ["--namesrv-port", str(free_port()), "--port", str(free_port(-2, 1))]
    done = skyrocket("run", "--host", "0.0.0.0", *ports, *more, *SMALL, *ACCESS, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("The HA port of the broker listens on 0.0.0.0 without a secret: ")
    assert "Set haSecretPath to a file with a secret that master and slaves share" in done.stderr


# --- the VIP port


def test_run_says_that_the_nameservers_port_is_the_brokers_vip_port(tmp_path: Path):
    done = skyrocket("run", "--port", "20911", "--namesrv-port", "20909", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("--namesrv-port 20909 is the VIP port of --port 20911: ")
    done = skyrocket("run", "--port", "20911", "--namesrv-port", "20911", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "--namesrv-port and --port are both 20911. Choose two different ports.\n")


def test_a_broker_says_that_the_taken_port_is_its_vip_port(tmp_path: Path):
    port = free_port(-2, 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port - 2))
        taken.listen()
        done = skyrocket("broker", "--set", f"listenPort={port}", *SMALL, cwd=tmp_path)
    assert done.returncode == 2
    assert f"Cannot listen on 127.0.0.1:{port - 2}" in done.stderr
    assert f"It is the VIP port of listenPort {port}" in done.stderr
    assert "Traceback" not in done.stderr


# --- where nameservers are


def broker_arguments(path: Path, port: int, *more: str) -> list[str]:
    return ["broker", "--set", f"listenPort={port}", "--set", f"storePathRootDir={path}/store", *SMALL, *more]


def test_a_broker_reads_the_nameservers_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    port = free_port(-2, 1)
    with SkyrocketNameserver(tmp_path / "names") as names:
        monkeypatch.setenv("NAMESRV_ADDR", names.nameserver)
        is_registered = lambda: registered(names.nameserver) == [f"127.0.0.1:{port}"]  # noqa: E731
        with SkyrocketProcess("broker", tmp_path, broker_arguments(tmp_path, port), is_registered):
            pass


def test_a_flag_and_a_file_win_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    port = free_port(-2, 1)
    with SkyrocketNameserver(tmp_path / "names") as names:
        is_registered = lambda: registered(names.nameserver) == [f"127.0.0.1:{port}"]  # noqa: E731
        arguments = broker_arguments(tmp_path, port)
        with SkyrocketProcess("broker", tmp_path, [*arguments, "-n", names.nameserver], is_registered) as process:
            process.stop()
        (tmp_path / "broker.conf").write_text(f"namesrvAddr={names.nameserver}\n")
        with SkyrocketProcess("broker", tmp_path, [*arguments, "-c", str(tmp_path / "broker.conf")], is_registered):
            pass


def test_a_brokers_address_given_as_a_nameservers_is_named(tmp_path: Path):
    port = free_port(-2, 1)
    arguments = broker_arguments(tmp_path, port, "-n", f"127.0.0.1:{port}")
    with SkyrocketProcess("broker", tmp_path, arguments, lambda: answers(port)) as process:
        sentence = f"127.0.0.1:{port} is not a nameserver: it does not know registrations. Is it a broker? Check namesrvAddr."
        wait_until(lambda: sentence in process.log_tail(), "the warning")


def test_a_wrong_variable_is_named(tmp_path: Path):
    done = skyrocket("broker", "--set", "listenPort=0", cwd=tmp_path, NAMESRV_ADDR="nowhere")
    assert done.returncode == 2
    assert "The environment variable NAMESRV_ADDR cannot be used: namesrvAddr must be addresses" in done.stderr


def test_brokers_and_commands_find_nameservers_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    port = free_port(-2, 1)
    with AddressServer() as server, SkyrocketNameserver(tmp_path / "names") as names:
        server.text = f"{names.nameserver}\n"
        config = tmp_path / "broker.conf"
        config.write_text(f"fetchNamesrvAddrByAddressServer=true\nrmqAddressServerDomain={server.domain}\n")
        is_registered = lambda: registered(names.nameserver) == [f"127.0.0.1:{port}"]  # noqa: E731
        arguments = broker_arguments(tmp_path, port)
        with SkyrocketProcess("broker", tmp_path, [*arguments, "-c", str(config)], is_registered) as process:
            process.stop()
        with SkyrocketProcess("broker", tmp_path, [*arguments, "--address-server", server.domain], is_registered):
            by_flag = skyrocket(
                "cluster", "show", "--json", "--address-server", f"http://{server.domain}/rocketmq/nsaddr", cwd=tmp_path
            )
            by_variable = skyrocket("cluster", "show", "--json", cwd=tmp_path, ROCKETMQ_NAMESRV_DOMAIN=server.domain)
        assert f'"address":"127.0.0.1:{port}"' in by_flag.stdout, by_flag.stderr
        assert f'"address":"127.0.0.1:{port}"' in by_variable.stdout, by_variable.stderr
    assert server.paths == {"/rocketmq/nsaddr"}


def test_a_broker_registers_with_a_nameserver_that_is_listed_later(tmp_path: Path):
    port = free_port(-2, 1)
    with AddressServer() as server, SkyrocketNameserver(tmp_path / "names") as names:
        server.text = "127.0.0.1:1"
        arguments = broker_arguments(tmp_path, port, "--address-server", server.domain, "--set", "fetchNamesrvAddrInterval=100")
        with SkyrocketProcess("broker", tmp_path, arguments, lambda: answers(port)):
            assert registered(names.nameserver) == []
            server.text = f"127.0.0.1:1;{names.nameserver}"
            wait_until(lambda: registered(names.nameserver) == [f"127.0.0.1:{port}"], "the registration")


def test_an_address_server_that_is_down_does_not_stop_a_broker(tmp_path: Path):
    port, closed = free_port(-2, 1), free_port()
    arguments = broker_arguments(tmp_path, port, "--address-server", f"127.0.0.1:{closed}")
    with SkyrocketProcess("broker", tmp_path, arguments, lambda: answers(port)) as process:
        wait_until(lambda: "does not answer" in process.log_tail(), "the warning")


def test_two_ways_at_once_are_refused(tmp_path: Path):
    both = ["-n", "127.0.0.1:9876", "--address-server", "names"]
    for arguments in (["topic", "list", *both], ["broker", *both]):
        done = skyrocket(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "Give either --namesrv or --address-server, not both.\n")
