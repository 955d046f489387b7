"""Our client's strategies, signatures and names answer as Apache's classes 5.5.0 did when they were asked."""

from __future__ import annotations

import json

import pytest

from tests.support.client_questions import ANSWERS, GOLDEN, our_answer

KEPT = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("ask", ANSWERS)
def test_our_answers_are_javas(ask: str):
    kept = [one for one in KEPT if one["question"]["ask"] == ask]
    assert len(kept) >= 30
    for one in kept:
        assert our_answer(one["question"]) == one["answer"], one["question"]
