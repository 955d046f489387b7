"""Our filter beside Apache's own: the same expressions, the same properties, the same verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.broker.pull.sql.errors import ExpressionError, UndecidedError
from skyrocket.broker.pull.sql.filter import SqlFilter
from tests.support.apache.packages import run_java
from tests.support.sql_expressions import Case, cases

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parent / "java" / "SqlExpressions.java"
CASES = 10_000
LETTERS = {True: "T", False: "F", None: "N"}


def ours(case: Case) -> str:
    try:
        compiled = SqlFilter(case.expression)
    except ExpressionError:
        return "refused"
    return "".join(letter(compiled, properties) for properties in case.properties)


def letter(compiled: SqlFilter, properties: bytes) -> str:
    try:
        return LETTERS[compiled.decide(properties)]
    except UndecidedError:
        return "E"


def theirs(asked: list[Case]) -> list[str]:
    lines = [" ".join(part.hex() or "-" for part in (case.expression.encode(), *case.properties)) for case in asked]
    return run_java(JAVA, stdin="\n".join(lines).encode()).decode().splitlines()


def test_ten_thousand_generated_expressions_are_decided_as_apaches_filter_decides_them():
    asked = list(cases(seed=92, count=CASES))
    answers = theirs(asked)
    assert len(answers) == CASES
    wrong = [
        f"{case.expression!r} with {case.properties}: {ours(case)}, Apache {answer}"
        for case, answer in zip(asked, answers, strict=True)
        if ours(case) != answer
    ]
    assert not wrong, f"{len(wrong)} of {CASES} differ:\n" + "\n".join(wrong[:20])

    refused = answers.count("refused")
    verdicts = "".join(answer for answer in answers if answer != "refused")
    assert CASES // 5 < refused < CASES * 3 // 5, "the generator makes too few sound or too few broken ones"
    assert all(verdicts.count(kind) > len(verdicts) // 50 for kind in "TFNE"), "one kind of verdict hardly occurs"
