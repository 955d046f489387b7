"""How descriptors are divided between connections and files."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from skyrocket.net.descriptors import OTHERS, plan_descriptors


def test_enough_descriptors_are_no_reason_for_a_warning():
    plan = plan_descriptors(10_000 + 2_304 + OTHERS, 10_000, 2_304)
    assert plan == (10_000, 2_304, None)


@pytest.mark.parametrize("limit", [10, 100, 256, 1024, 4096, 12_000])
@pytest.mark.parametrize(("connections", "files"), [(10_000, 2_304), (10_000, 0), (50, 2_304), (20_000, 100)])
def test_too_few_descriptors_are_divided_and_one_warning_says_how_many_are_needed(limit: int, connections: int, files: int):
    plan = plan_descriptors(limit, connections, files)
    needed = connections + files + OTHERS
    if limit >= needed:
        assert plan.warning is None
        return
    assert plan.connections_max + plan.files_max + OTHERS <= max(limit, OTHERS + 2)
    assert 1 <= plan.connections_max <= connections
    assert plan.files_max <= files
    assert plan.warning is not None
    assert f"ulimit -n {needed}" in plan.warning
    assert str(limit) in plan.warning
    assert f"at most {plan.connections_max} connections" in plan.warning


def test_the_soft_limit_is_raised_to_the_hard_one():
    script = "from skyrocket.net.descriptors import *; print(descriptor_limit(), raise_descriptor_limit(), descriptor_limit())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 700)),
    )
    assert done.stdout.split() == ["200", "700", "700"]
