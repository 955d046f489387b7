"""Every example of docs/client.md runs as it stands, with the nameserver's address put in."""

from __future__ import annotations

import re

import pytest

from tests.client.servers import Servers
from tests.support.guide_examples import DOCUMENTS, read_examples, run_example

EXAMPLES = read_examples(DOCUMENTS / "client.md")


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.sub(r"\W+", " ", example)[-40:] for example in EXAMPLES])
def test_an_example_runs(ours: Servers, example: str):
    run_example(example.replace("127.0.0.1:9876", ours.nameserver))
