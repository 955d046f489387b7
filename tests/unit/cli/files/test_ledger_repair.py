"""`skyrocket store repair` on the store of a node of a DLedger group: one that Apache's node wrote, and ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skyrocket.cli.files.store import app
from skyrocket.protocol.message.record import decode_record
from skyrocket.store.ledger.entry import HEADER_BYTES
from skyrocket.store.ledger.entry_index import INDEX_ENTRY_BYTES
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import TermVote, decode_ledger_checkpoint, decode_term
from tests.support.stores.ledgers import (
    GOLDEN_LEDGER_CONFIG,
    LEDGER_CONFIG,
    LedgerFiles,
    a_ledger,
    all_entries,
    append_committed,
    golden_ledger,
    header_of,
    restore_entry,
)
from tests.support.stores.sample_stores import flip
from tests.support.stores.store_messages import START_MS, a_message

NODE = "n2"
APACHES = 209  # entries of the golden store
CONFIRMED, UNCONFIRMED = 40, 5


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def repair(store: Path, expected: int = 0) -> Any:
    code, out, err = run("repair", store, "--yes", "--json")
    assert (code, err) == (expected, ""), out
    return json.loads(out)


def content(folder: Path) -> dict[str, bytes]:
    """The files of a directory, without zeros behind their ends. Files of the ledger's index are sparse."""
    return {
        str(path.relative_to(folder)): beginning(path) for path in folder.rglob("*") if path.is_file() and path.name != "lock"
    }


def beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1 << 20).rstrip(b"\0")


def kept(store: Path) -> Path:
    (found,) = store.glob("repaired-*")
    return found


def open_apaches(store: Path, node: str = NODE) -> LedgerStore:
    opened = LedgerStore(store, GOLDEN_LEDGER_CONFIG, node_id=node)
    opened.open()
    return opened


def flip_at(files: LedgerFiles, position: int, segment_bytes: int) -> None:
    """Change a byte of the log."""
    flip(files.data[position // segment_bytes], position % segment_bytes)


def body_at(entry: bytes) -> int:
    """The position in the log of the body of an entry's message."""
    header = header_of(entry)
    return header.pos + entry.index(decode_record(memoryview(entry)[HEADER_BYTES:]).body)


# --- a store that Apache's node wrote


@pytest.fixture
def apaches(tmp_path: Path) -> Path:
    return golden_ledger(tmp_path, NODE)


@pytest.fixture
def others(tmp_path: Path) -> list[bytes]:
    """The entries of another node of the group."""
    store = open_apaches(golden_ledger(tmp_path / "other", "n0"), "n0")
    entries = all_entries(store)
    store.close()
    return entries


def test_a_sound_store_of_apaches_node_is_left_alone(apaches: Path):
    before = content(apaches)
    code, out, _ = run("repair", apaches, "--yes")
    assert (code, out) == (0, f"Nothing in {apaches} needs a repair.\n")
    assert content(apaches) == before


def test_lost_queues_of_apaches_node_are_made_again(apaches: Path):
    before = content(apaches)
    shutil.rmtree(apaches / "consumequeue" / "TD" / "1")
    done = repair(apaches)
    assert (done["messages"], done["confirmedIndex"], done["left"]) == (APACHES, APACHES - 1, [])
    after = content(apaches)
    for name, data in before.items():
        if name.startswith(("consumequeue", "dledger-n2/data", "dledger-n2/index", "dledger-n2/currterm")):
            assert after[name] == data, name
    assert decode_ledger_checkpoint(after["dledger-n2/checkpoint"]).committed_index == APACHES - 1
    assert not (apaches / "abort").exists()


def test_a_lost_index_of_entries_is_written_again_from_their_headers(apaches: Path):
    before = content(apaches)
    shutil.rmtree(apaches / "dledger-n2" / "index")
    done = repair(apaches)
    assert any("The index of the ledger was written again for 209 entries." in each for each in done["did"])
    assert content(apaches / "dledger-n2")["index/00000000000000000000"] == before["dledger-n2/index/00000000000000000000"]


def test_a_damaged_header_is_written_again_from_the_index_of_entries(apaches: Path, others: list[bytes]):
    before = content(apaches)
    files = LedgerFiles(apaches, NODE)
    flip_at(files, header_of(others[100]).pos + 2, GOLDEN_LEDGER_CONFIG.segment_bytes)
    done = repair(apaches)
    assert len(done["damaged"]) == 1
    assert done["did"][-1] == "All entries are whole again: headers and index of the ledger told what was damaged."
    after = content(apaches)
    assert [name for name in before if "/data/" in name and after[name] != before[name]] == []
    assert done["left"] == []


def damage_before_it_saves(apaches: Path, others: list[bytes]) -> None:
    """Damage a header in a directory whose node was killed before it saved what is confirmed: it does so every three seconds."""
    flip_at(LedgerFiles(apaches, NODE), header_of(others[100]).pos + 2, GOLDEN_LEDGER_CONFIG.segment_bytes)
    for each in (apaches / "dledger-n2").glob("checkpoint*"):
        each.unlink()
    (apaches / "abort").touch()


def test_queues_tell_what_was_confirmed_when_apaches_node_was_killed_before_it_saved_that(apaches: Path, others: list[bytes]):
    """Behind damage, unconfirmed entries are cut."""
    before = content(apaches)
    damage_before_it_saves(apaches, others)
    shutil.rmtree(apaches / "consumequeue" / "TD" / "1")
    done = repair(apaches)
    assert (done["confirmedIndex"], done["left"]) == (APACHES - 1, [])
    after = content(apaches)
    assert [name for name in before if name.startswith(("consumequeue", "dledger-n2/data")) and after[name] != before[name]] == []


def test_our_node_keeps_what_the_queues_of_apaches_killed_node_have(apaches: Path, others: list[bytes]):
    damage_before_it_saves(apaches, others)
    store = open_apaches(apaches)
    assert (store.committed_index, all_entries(store)) == (APACHES - 1, others)
    store.close()


def test_a_damaged_entry_keeps_its_place_and_comes_back_from_another_node(apaches: Path, others: list[bytes]):
    flip_at(LedgerFiles(apaches, NODE), body_at(others[100]), GOLDEN_LEDGER_CONFIG.segment_bytes)
    done = repair(apaches, 1)
    assert done["did"][-2:] == [
        "Entry 100 holds no message any more. Our node gets such entries from its group when it starts.",
        "Do not start Apache's node here: it would not ask for them. On an empty directory it gets everything.",
    ]
    store = open_apaches(apaches)
    assert (store.committed_index, store.damaged_indexes) == (APACHES - 1, [100])
    sound = [entry for index, entry in enumerate(others) if index != 100]
    assert [bytes(store.entries(index, 1)[0]) for index in range(APACHES) if index != 100] == sound
    restore_entry(store, others[100])
    assert all_entries(store) == others
    store.close()
    assert run("verify", apaches)[0] == 0


def test_what_the_repair_replaces_is_kept(apaches: Path):
    before = content(apaches)
    code, _, _ = run("repair", apaches, "--yes", "--force")
    assert code == 0
    found = content(kept(apaches))
    names = {name for name in before if name.startswith(("consumequeue", "index/", "dledger-n2/index", "checkpoint"))}
    names |= {"dledger-n2/currterm", "dledger-n2/checkpoint"}
    assert found == {name: before[name] for name in names}


def test_a_node_whose_vote_cannot_be_read_is_refused_and_nothing_is_changed(apaches: Path):
    (apaches / "dledger-n2" / "currterm").write_text("voteLeader=n2\n")
    before = content(apaches)
    code, out, err = run("repair", apaches, "--yes", "--force")
    assert (code, out) == (2, "")
    assert "Put the term of the group there as 'currTerm=N'." in err
    assert content(apaches) == before


# --- ours


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A node that led in term 3. The group has confirmed all but the last entries."""
    store = a_ledger(tmp_path / "store")
    store.begin_save_term(TermVote(3, "n0"))()
    store.set_term(3)
    append_committed(store, messages(CONFIRMED))
    store.append(messages(UNCONFIRMED, CONFIRMED), START_MS + 1)
    store.flush()
    store.close()
    return tmp_path / "store"


def messages(count: int, first: int = 0) -> list[Any]:
    return [a_message("orders", 0, b"%03d" % number * 40, keys=f"o-{number}") for number in range(first, first + count)]


def count_readable(store: LedgerStore) -> int:
    """How many messages consumers can read."""
    found = 0
    while views := store.reading.messages("orders", 0, found, 32).records:
        found += len(views)
    return found


def test_entries_that_no_majority_has_stay_unconfirmed(ours: Path):
    store = a_ledger(ours)
    entries = all_entries(store)
    store.close()
    min((ours / "consumequeue" / "orders" / "0").iterdir()).unlink()
    done = repair(ours)
    assert (done["confirmedIndex"], done["left"]) == (CONFIRMED - 1, [])
    store = a_ledger(ours)
    assert (store.committed_index, store.end_index) == (CONFIRMED - 1, CONFIRMED + UNCONFIRMED - 1)
    assert all_entries(store) == entries
    assert count_readable(store) == CONFIRMED
    store.commit(store.end_index)
    assert count_readable(store) == CONFIRMED + UNCONFIRMED, "the group has confirmed them"
    assert store.term_vote == TermVote(3, "n0")
    store.close()


def test_damage_behind_the_confirmed_entries_ends_the_log_and_what_is_cut_is_kept(ours: Path):
    store = a_ledger(ours)
    entries = all_entries(store)
    store.close()
    files = LedgerFiles(ours)
    torn = header_of(entries[CONFIRMED + 1])
    flip_at(files, body_at(entries[CONFIRMED + 1]), LEDGER_CONFIG.segment_bytes)
    was = b"".join(beginning(path).ljust(LEDGER_CONFIG.segment_bytes, b"\0") for path in files.data)
    done = repair(ours)
    assert (done["logEnd"], done["damaged"], done["left"]) == (torn.pos, [], [])
    store = a_ledger(ours)
    assert all_entries(store) == entries[: CONFIRMED + 1]
    assert (store.committed_index, store.term_vote.is_learner) == (CONFIRMED - 1, False)
    store.close()
    tails = sorted(kept(ours).glob("log-tail-*"))
    assert tails[0].name.startswith(f"log-tail-{torn.pos:020d}-")
    for tail in tails:
        position = int(tail.name.split("-")[2])
        assert was[position:].startswith(beginning(tail)), tail.name
    assert sum(int(tail.name.split("-")[3]) for tail in tails) >= sum(map(len, entries[CONFIRMED + 1 :]))


def test_a_node_that_lost_confirmed_entries_votes_as_one_that_lost_its_disk(ours: Path):
    store = a_ledger(ours)
    entries = all_entries(store)
    store.close()
    files = LedgerFiles(ours)
    lost = header_of(entries[30])
    for number, path in enumerate(files.data):  # the end of the log and its index are zeros, as on a disk that lost sectors
        start = number * LEDGER_CONFIG.segment_bytes
        data = bytearray(path.read_bytes())
        data[max(0, lost.pos - start) :] = bytes(len(data) - max(0, lost.pos - start)) if lost.pos < start + len(data) else b""
        path.write_bytes(data)
    for path in files.index:
        data = bytearray(path.read_bytes())
        data[30 * INDEX_ENTRY_BYTES :] = bytes(len(data) - 30 * INDEX_ENTRY_BYTES)
        path.write_bytes(data)
    code, out, _ = run("repair", ours, "--yes")
    assert "DAMAGE: confirmed entries behind 29 are lost here." in out
    assert "Do not start Apache's node here" in out
    assert code == 0
    assert decode_term((ours / "dledger-n0" / "currterm").read_bytes()) == TermVote(3, "n0", is_learner=True)
    store = a_ledger(ours)
    assert all_entries(store) == entries[:30]
    store.append_entries(entries[30:])  # the leader sends them again
    assert all_entries(store) == entries
    store.close()
