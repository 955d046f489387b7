"""Transactions against a model that knows how each must end: half messages, commits, rollbacks, questions, flushes, saved
offsets, kills and power cuts in any order that Hypothesis can think of.

What must hold in the end, when the producer answers every question: each acknowledged message that was to be committed is there,
and none is there that was to be rolled back. Where nothing crashed, each is there once. A broker that flushes each message keeps
that through power cuts; others keep it through kills, and through power cuts for messages that happened to be on disk.
"""

from __future__ import annotations

from itertools import count
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from skyrocket.store.message import AppendResult
from tests.support.transaction_parts import Transacting

ROUND_MS = 5_000
OUTCOMES = (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)


class Transaction:
    def __init__(self, name: str, half: AppendResult, outcome: int) -> None:
        self.name = name
        self.half = half
        self.outcome = outcome
        self.acknowledged = False
        self.tries = 0  # to end it, by itself

    @property
    def log_end(self) -> int:
        return self.half.physical_offset + self.half.size


class TransactionsAndModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.serial = count()
        self.transactions: dict[str, Transaction] = {}
        self.open: list[Transaction] = []  # their producer has not tried to end them yet
        self.crashed = False

    @initialize(sync_flush=st.booleans(), op_bytes=st.sampled_from([1, 8, 4096]), timeout_ms=st.sampled_from([1, 6_000]))
    def start(self, sync_flush: bool, op_bytes: int, timeout_ms: int) -> None:
        self.sync_flush = sync_flush
        self.broker = Transacting(
            sync_flush=sync_flush,
            transaction_op_bytes_max=op_bytes,
            transaction_timeout_ms=timeout_ms,
            transaction_check_interval_ms=ROUND_MS,
            transaction_checks_max=10**6,
        )
        self.broker.joins()

    # --- the producer

    @rule(outcome=st.sampled_from(OUTCOMES), times=st.integers(1, 5), immunity=st.sampled_from(["", "", "8"]))
    def sends_halves(self, outcome: int, times: int, immunity: str) -> None:
        more = {"CHECK_IMMUNITY_TIME_IN_SECONDS": immunity} if immunity else {}
        for _ in range(times):
            name = f"m{next(self.serial)}"
            transaction = Transaction(name, self.broker.half(name, **more), outcome)
            self.transactions[name] = transaction
            self.open.append(transaction)
        self.acknowledge()

    def acknowledge(self) -> None:
        for transaction in self.open:
            transaction.acknowledged |= transaction.log_end <= self.broker.store.horizon.confirmed

    @precondition(lambda self: self.open)
    @rule(at=st.integers(0, 10**6), twice=st.booleans())
    def ends_one(self, at: int, twice: bool) -> None:
        transaction = self.open[at % len(self.open)]
        if transaction.acknowledged:  # before, its producer does not know where it is
            self.open.remove(transaction)
            for transaction.tries in range(1, 2 + twice):
                self.broker.end(transaction.half, transaction.outcome)

    @precondition(lambda self: self.open)
    @rule(at=st.integers(0, 10**6))
    def does_not_know(self, at: int) -> None:
        self.broker.end(self.open[at % len(self.open)].half, TRANSACTION_NONE)

    @rule(every=st.integers(1, 3))
    def answers_questions(self, every: int) -> None:
        """Not all of them."""
        for number, (name, copy) in enumerate(self.broker.asked()):
            if number % every == 0:
                self.broker.end(copy, self.transactions[name].outcome, from_transaction_check=True)

    # --- time and disk

    @rule(ms=st.sampled_from([500, 3_000, ROUND_MS]))
    def time_passes(self, ms: int) -> None:
        self.broker.passes(ms)

    @rule(turns=st.integers(1, 5))
    def a_round_begins(self, turns: int) -> None:
        """And stands somewhere in the middle when the next thing happens."""
        self.broker.now_ms += ROUND_MS
        for _ in range(turns):
            self.broker.checks.check(self.broker.now_ms)

    @rule()
    def flush(self) -> None:
        self.broker.store.flush()
        self.acknowledge()

    @rule()
    def offsets_are_saved(self) -> None:
        self.broker.saves()

    @rule()
    def is_killed(self) -> None:
        self.next_life(self.broker.killed())

    @rule(seed=st.integers(0, 10**6))
    def loses_power(self, seed: int) -> None:
        flushed = self.broker.store.horizon.flushed
        if not self.sync_flush:  # nothing was promised about the others
            for transaction in self.transactions.values():
                transaction.acknowledged &= transaction.log_end <= flushed
        self.next_life(self.broker.power_cut(Random(seed)))

    def next_life(self, broker: Transacting) -> None:
        self.broker = broker
        self.crashed = True
        self.broker.joins()
        self.open = [transaction for transaction in self.open if transaction.acknowledged]  # others were told that it failed

    # --- the end

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        for _ in range(8):
            self.broker.now_ms += 2 * ROUND_MS
            for _ in range(3):
                self.broker.store.flush()
                self.broker.works()
            for name, copy in self.broker.asked():
                self.broker.end(copy, self.transactions[name].outcome, from_transaction_check=True)
            self.broker.store.flush()
        delivered = self.broker.delivered()
        for transaction in self.transactions.values():
            if transaction.outcome == TRANSACTION_ROLLBACK:
                assert transaction.name not in delivered, f"{transaction.name} was rolled back, and is seen"
            elif transaction.acknowledged:
                assert transaction.name in delivered, f"{transaction.name} was to be committed, and is lost"
                once = self.crashed or transaction.tries > 1 or delivered.count(transaction.name) == 1
                assert once, f"{transaction.name} was delivered twice"
        assert self.broker.given_up() == []
        self.broker.passes(2 * ROUND_MS)
        assert self.broker.asked() == [], "all have ended, and one is asked about"


TestTransactions = TransactionsAndModel.TestCase
TestTransactions.settings = settings(
    max_examples=300,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
