"""Transactions against a model: half messages, commits, rollbacks, checks, flushes, saved offsets, kills and power cuts.

Hypothesis chooses their order. At the end the producer answers every check. Then each acknowledged message with outcome commit is
delivered, and no message with outcome rollback is. Without a crash each is delivered once. With sync flush this holds through
power cuts; without it, through kills, and through power cuts for messages that were on disk.
"""

from __future__ import annotations

from itertools import count
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from skyrocket.store.message import AppendResult
from tests.support.brokers.transaction_parts import Transacting

ROUND_MS = 5_000
OUTCOMES = (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)


class Transaction:
    def __init__(self, name: str, half: AppendResult, outcome: int) -> None:
        self.name = name
        self.half = half
        self.outcome = outcome
        self.acknowledged = False
        self.tries = 0  # how often the producer ended it without a check

    @property
    def log_end(self) -> int:
        return self.half.physical_offset + self.half.size


class TransactionsAndModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.serial = count()
        self.transactions: dict[str, Transaction] = {}
        self.open: list[Transaction] = []  # the producer has not tried to end them yet
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
        self.broker.join()

    # --- the producer

    @rule(outcome=st.sampled_from(OUTCOMES), times=st.integers(1, 5), immunity=st.sampled_from(["", "", "8"]))
    def send_halves(self, outcome: int, times: int, immunity: str) -> None:
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
    def end_one(self, at: int, twice: bool) -> None:
        transaction = self.open[at % len(self.open)]
        if transaction.acknowledged:  # before that, its producer does not know the offsets
            self.open.remove(transaction)
            for transaction.tries in range(1, 2 + twice):
                self.broker.end(transaction.half, transaction.outcome)

    @precondition(lambda self: self.open)
    @rule(at=st.integers(0, 10**6))
    def end_with_unknown_outcome(self, at: int) -> None:
        self.broker.end(self.open[at % len(self.open)].half, TRANSACTION_NONE)

    @rule(every=st.integers(1, 3))
    def answer_checks(self, every: int) -> None:
        """Answer some of the checks."""
        for number, (name, copy) in enumerate(self.broker.take_checks()):
            if number % every == 0:
                self.broker.end(copy, self.transactions[name].outcome, from_transaction_check=True)

    # --- time and disk

    @rule(ms=st.sampled_from([500, 3_000, ROUND_MS]))
    def pass_time(self, ms: int) -> None:
        self.broker.pass_time(ms)

    @rule(turns=st.integers(1, 5))
    def begin_round(self, turns: int) -> None:
        """Begin a round, and leave it before it is over."""
        self.broker.now_ms += ROUND_MS
        for _ in range(turns):
            self.broker.checks.check(self.broker.now_ms)

    @rule()
    def flush(self) -> None:
        self.broker.store.flush()
        self.acknowledge()

    @rule()
    def save_offsets(self) -> None:
        self.broker.save_offsets()

    @rule()
    def kill(self) -> None:
        self.use(self.broker.restart_after_kill())

    @rule(seed=st.integers(0, 10**6))
    def cut_power(self, seed: int) -> None:
        flushed = self.broker.store.horizon.flushed
        if not self.sync_flush:  # other messages were not promised to survive
            for transaction in self.transactions.values():
                transaction.acknowledged &= transaction.log_end <= flushed
        self.use(self.broker.restart_after_power_cut(Random(seed)))

    def use(self, broker: Transacting) -> None:
        self.broker = broker
        self.crashed = True
        self.broker.join()
        self.open = [transaction for transaction in self.open if transaction.acknowledged]  # the other sends failed

    # --- the end

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        for _ in range(8):
            self.broker.now_ms += 2 * ROUND_MS
            for _ in range(3):
                self.broker.store.flush()
                self.broker.run_checks()
            for name, copy in self.broker.take_checks():
                self.broker.end(copy, self.transactions[name].outcome, from_transaction_check=True)
            self.broker.store.flush()
        delivered = self.broker.delivered()
        for transaction in self.transactions.values():
            if transaction.outcome == TRANSACTION_ROLLBACK:
                assert transaction.name not in delivered, f"{transaction.name} was rolled back and delivered"
            elif transaction.acknowledged:
                assert transaction.name in delivered, f"{transaction.name} was committed and is lost"
                once = self.crashed or transaction.tries > 1 or delivered.count(transaction.name) == 1
                assert once, f"{transaction.name} was delivered twice"
        assert self.broker.given_up() == []
        self.broker.pass_time(2 * ROUND_MS)
        assert self.broker.take_checks() == [], "an ended transaction is checked"


TestTransactions = TransactionsAndModel.TestCase
TestTransactions.settings = settings(
    max_examples=300,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
