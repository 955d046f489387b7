"""A store that is verified in parts gives what `verify` finds, whatever is wrong with it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import msgspec
import pytest

from skyrocket.store.offline.verify import VerifyCounts, verify
from skyrocket.store.offline.verify_index import Finding
from skyrocket.store.offline.verify_parts import (
    LogPartResult,
    PartResult,
    add_results,
    check_log_part,
    check_other_part,
    merge_log_parts,
    plan_log_parts,
    plan_other_parts,
    state_for,
)
from tests.support.stores.ledgers import golden_ledger
from tests.support.stores.sample_stores import flip, golden_store, sample_record, sample_store, write_store


def through_json(result: PartResult) -> PartResult:
    """Encode and decode a result, as it travels between processes."""
    return msgspec.json.decode(msgspec.json.encode(result), type=type(result))


def verify_in_parts(path: Path) -> PartResult:
    parts = plan_log_parts(path)
    checked = [through_json(check_log_part(path, part)) for part in parts]
    log, taken = merge_log_parts(checked, lambda number, lasts: check_log_part(path, parts[number], lasts))
    others = [check_other_part(path, state_for(log, part), part) for part in plan_other_parts(path)]
    return add_results([*taken, *others])


def compare(path: Path) -> list[Finding]:
    counts = VerifyCounts()
    expected = sorted(verify(path, verified=counts))
    found = verify_in_parts(path)
    assert found.findings == expected
    assert (found.messages, found.queues, found.index_entries) == (counts.messages, counts.queues, counts.index_entries)
    return expected


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("sound"))


def test_a_sound_store_of_several_segments_has_no_finding(sound: Path):
    assert len(plan_log_parts(sound)) > 3
    assert compare(sound) == []


def test_an_empty_store_has_no_finding(tmp_path: Path):
    write_store(tmp_path, [])
    assert compare(tmp_path) == []


def test_a_store_of_apache_has_no_finding(tmp_path: Path):
    (root,) = {path.parent for path in golden_store(tmp_path).rglob("commitlog")}
    assert compare(root) == []


def test_the_store_of_a_dledger_node_gives_what_verify_finds(tmp_path: Path):
    root = golden_ledger(tmp_path)
    assert compare(root) == []
    for folder in ("data", "index"):
        path = next(path for path in sorted(root.rglob(f"dledger-*/{folder}/*")) if path.stat().st_size)
        flip(path, 300)
        assert compare(root) != []
        flip(path, 300)


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_are_found_as_by_verify(sound: Path, tmp_path: Path, seed: int):
    chance, damaged = random.Random(seed), tmp_path / "damaged"
    shutil.copytree(sound, damaged)
    folder = ("commitlog", "consumequeue", "index")[seed % 3]
    files = sorted(path for path in (damaged / folder).rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(chance.choice([1, 3])):
        path = chance.choice(files)
        flip(path, chance.randrange(path.stat().st_size), chance.randrange(8))
    compare(damaged)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_lost_segment_is_found_as_by_verify(sound: Path, tmp_path: Path, number: int):
    damaged = tmp_path / "damaged"
    shutil.copytree(sound, damaged)
    sorted((damaged / "commitlog").iterdir())[number].unlink()
    findings = compare(damaged)
    assert bool(findings) is (number != 0), "a log without its first file is one that has expired"


def test_queue_offsets_that_go_back_across_a_border_are_found_as_by_verify(tmp_path: Path):
    """Two stores, one behind the other: the second begins its queues at 0 again."""
    write_store(tmp_path / "a", map(sample_record, range(150)))
    parts = plan_log_parts(tmp_path / "a")
    checked = [check_log_part(tmp_path / "a", part) for part in parts]
    swapped: list[LogPartResult] = [checked[1], checked[0], *checked[2:]]
    again: list[int] = []

    def check_again(number: int, lasts: object) -> LogPartResult:
        assert lasts
        again.append(number)
        return swapped[number]

    merge_log_parts(swapped, check_again)
    assert again[0] == 1
