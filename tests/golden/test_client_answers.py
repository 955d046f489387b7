"""Our client's allocation strategies, signatures and names give the same results as Apache's classes of 5.5.0."""

from __future__ import annotations

import json

import pytest

from tests.support.client_questions import ANSWERS, GOLDEN, our_answer

KEPT = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("ask", ANSWERS)
def test_our_results_equal_javas(ask: str):
    kept = [one for one in KEPT if one["question"]["ask"] == ask]
    assert len(kept) >= 30
    for one in kept:
        assert our_answer(one["question"]) == one["answer"], one["question"]
