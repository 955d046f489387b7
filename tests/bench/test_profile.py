"""Where CPU time goes: samples of perf are sorted by what the process did."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.suite import profile
from bench.suite.loads import BY_NAME
from bench.suite.profile import (
    FILES,
    INTERPRETER,
    LIBC,
    OTHER_KERNEL,
    POLLS,
    REST,
    SOCKET_READS,
    SOCKET_WRITES,
    TWINS,
    UVLOOP,
    make_profile,
    profile_load,
)
from bench.suite.record import Profile
from bench.suite.servers import ours
from bench.suite.tables import profiles_table

from tests.bench.sample_record import sample_record

KERNEL = "([kernel.kallsyms])"
CHAINS = {
    SOCKET_WRITES: [
        f"ffff1 tcp_ack {KERNEL}",
        f"ffff2 tcp_sendmsg {KERNEL}",
        f"ffff3 vfs_write {KERNEL}",
        "7f1 write (/lib/libc.so.6)",
    ],
    SOCKET_READS: [f"ffff1 copyout {KERNEL}", f"ffff2 tcp_recvmsg_locked {KERNEL}", f"ffff3 vfs_read {KERNEL}"],
    POLLS: [f"ffff1 do_epoll_wait {KERNEL}"],
    FILES: [f"ffff1 copy_page_from_iter {KERNEL}", f"ffff2 __x64_sys_pwrite64 {KERNEL}"],
    OTHER_KERNEL: [f"ffff1 schedule {KERNEL}"],
    INTERPRETER: ["7f1 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)", f"ffff2 tcp_sendmsg {KERNEL}"],
    TWINS: ["7f1 place_message (/x/src/skyrocket/compiled/send_loop.cpython-311-x86_64-linux-gnu.so)"],
    UVLOOP: ["7f1 uv__read (/x/site-packages/uvloop/loop.cpython-311-x86_64-linux-gnu.so)"],
    LIBC: ["7f1 memcpy (/lib/x86_64-linux-gnu/libc.so.6)"],
    REST: ["7f1 clock ([vdso])"],
}


def printed(chains: list[list[str]]) -> list[str]:
    """Return what `perf script` prints of samples."""
    return [line for chain in chains for line in ["  4711 ", *(f"\t        {frame}" for frame in chain), ""]]


@pytest.mark.parametrize("kind", CHAINS)
def test_a_sample_counts_for_what_the_kernel_was_asked_for_or_for_its_library(kind: str):
    assert make_profile("sync-16", printed([CHAINS[kind]] * 3)) == Profile("sync-16", 3, {kind: 3})


def test_samples_of_all_kinds_are_counted_once():
    found = make_profile("sync-16", printed(list(CHAINS.values())))
    assert found.kinds == dict.fromkeys(CHAINS, 1)


def test_the_table_has_shares_and_only_columns_that_somebody_has():
    record = sample_record()
    record.profiles = [Profile("sync-16", 200, {SOCKET_WRITES: 100, TWINS: 100}), Profile("sync-1", 100, {TWINS: 100})]
    lines = profiles_table(record).splitlines()
    assert lines[0] == "| load | CPU a message | socket writes | compiled twins | samples |"
    assert lines[2:] == [
        "| 16 sync clients | 5.00 µs | 50% | 50% | 200 |",
        "| one sync client | 5.00 µs | 0% | 100% | 100 |",
    ]


def test_a_run_without_profiles_says_so():
    assert profiles_table(sample_record()) == "These rows are not in the last run.\n"


@pytest.mark.skipif(not profile.is_there(), reason="perf is not installed: docs/benchmarks.md needs it, tests do not")
def test_a_broker_under_load_is_sampled_in_kernel_and_twins(tmp_path: Path):
    with ours(tmp_path / "ours", {}) as server:
        found = profile_load(BY_NAME["sync-16"], server, tmp_path / "profile")
    assert found.kinds.get(SOCKET_WRITES)
    assert sum(found.kinds.values()) == found.samples
    assert not (tmp_path / "profile").exists()
