"""Every example of docs/admin.md runs, and its table lists all methods."""

from __future__ import annotations

import re

import pytest

from skyrocket.client.admin.admin import AccessAdmin, ClusterAdmin, GroupAdmin, MessageAdmin, OffsetAdmin, TopicAdmin
from tests.client.servers import Servers
from tests.support.guide_examples import DOCUMENTS, read_examples, run_example

DOCUMENT = DOCUMENTS / "admin.md"
TEXT = DOCUMENT.read_text()
EXAMPLES = read_examples(DOCUMENT)
PARTS = {
    "topics": TopicAdmin,
    "groups": GroupAdmin,
    "offsets": OffsetAdmin,
    "messages": MessageAdmin,
    "cluster": ClusterAdmin,
    "access": AccessAdmin,
}


@pytest.mark.parametrize("example", EXAMPLES, ids=["first", "rooms", "sync"])
def test_example_runs(ours: Servers, example: str, capsys: pytest.CaptureFixture[str]):
    run_example(example.replace("127.0.0.1:9876", ours.nameserver))
    assert capsys.readouterr().out


@pytest.mark.parametrize("part", PARTS)
def test_table_lists_every_method(part: str):
    (row,) = re.findall(rf"^\| `admin\.{part}` \| (.*) \|$", TEXT, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == {name for name in vars(PARTS[part]) if not name.startswith("_")}
