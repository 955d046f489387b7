"""A service's database: an effect and its claim are one transaction."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from skyrocket.client.helpers.sqlite_file import SqliteFileError
from skyrocket.pipelines.signup.effect_ledger import EffectLedger

DIES_IN_THE_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from skyrocket.pipelines.signup.effect_ledger import EffectLedger
ledger = EffectLedger(Path(sys.argv[1]))
ledger.apply("before", 1)
with ledger._file.transaction() as connection:
    assert ledger._claims.first(connection, "u-1")
    connection.execute("INSERT INTO effects VALUES ('u-1', 5)")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> EffectLedger:
    return EffectLedger(tmp_path / "coupons.db")


def test_an_effect_happens_once_however_often_the_message_comes(ledger: EffectLedger):
    assert [ledger.apply("u-1", 120), ledger.apply("u-1", 900), ledger.apply("u-2", 30)] == [True, False, True]
    assert ledger.effects() == {"u-1": 1, "u-2": 1}
    assert ledger.waits_ms() == [30, 120]
    assert ledger.totals(3).deliveries == {"served": 2, "repeated": 1}


def test_refused_messages_are_given_up_after_their_last_attempt(ledger: EffectLedger):
    for attempt in (1, 2):
        ledger.refuse("p", attempt)
    assert ledger.totals(3).given_up == 0
    ledger.refuse("p", 3)
    ledger.refuse("p", 1)  # delivered again after a kill
    ledger.note_failure()
    found = ledger.totals(3)
    assert (found.effects, found.given_up, found.deliveries) == (0, 1, {"refused": 4, "failed": 1})


def test_nothing_but_the_claim_keeps_a_second_effect_out(ledger: EffectLedger, tmp_path: Path):
    """So that an effect that does happen twice is seen."""
    ledger.apply("u-1", 1)
    with sqlite3.connect(tmp_path / "coupons.db") as other:
        other.execute("INSERT INTO effects VALUES ('u-1', 2)")
    assert ledger.effects() == {"u-1": 2}


def test_a_kill_within_the_transaction_leaves_neither_effect_nor_claim(tmp_path: Path):
    path = tmp_path / "coupons.db"
    done = subprocess.run([sys.executable, "-c", DIES_IN_THE_TRANSACTION, str(path)], check=False, timeout=180)
    assert done.returncode == -9
    ledger = EffectLedger(path)
    assert ledger.effects() == {"before": 1}
    assert ledger.apply("u-1", 7), "the claim went with the transaction"
    assert ledger.effects() == {"before": 1, "u-1": 1}


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path):
    (tmp_path / "x.db").write_bytes(b"not a database" * 100)
    with pytest.raises(SqliteFileError, match=r"^SQLite cannot use the file .*x\.db: .*\.$"):
        EffectLedger(tmp_path / "x.db")
