"""The reference says what the source says."""

from __future__ import annotations

import importlib
import re

import pytest
from tools.client_reference import DOCUMENT, ELSEWHERE, INTERNAL, SECTIONS, reference

from skyrocket import client


def test_the_reference_is_up_to_date():
    assert DOCUMENT.read_text() == reference(), "the source says otherwise by now: make reference"


def test_everything_that_users_import_is_in_it():
    told = {name for section in SECTIONS for name in section.names}
    assert set(client.__all__) - ELSEWHERE <= told


# Types in signatures that users do not import: aliases, which the page or the guides explain, and those of the standard library.
ALIASES = {
    *("Check", "Execute", "Expression", "Nameservers", "QueueSelector", "ReceiptCallback", "Start", "TopicSelection", "H"),
    *("Any", "BaseException", "Callable", "Exception", "Iterable", "Iterator", "Mapping", "None", "Path", "Sequence", "True"),
    *("Once", "Newer", "Claims", "AsyncClaims", "Versions"),  # of the helpers, used in `with`
    *("AsyncRedis", "SyncRedis", "TextMapPropagator"),  # of other libraries
}


def test_signatures_name_no_type_that_users_cannot_see():
    shown = {name for section in SECTIONS for name in section.names}
    signatures = re.findall(r"```\n(.*?)\n```", DOCUMENT.read_text(), re.DOTALL)
    named = {name for signature in signatures for name in re.findall(r"(?<![\w.'])[A-Z]\w*", signature)}
    assert named - shown - ALIASES == set()


@pytest.mark.parametrize("kind", INTERNAL)
def test_internal_methods_exist_and_are_not_shown(kind: str):
    (section,) = [section for section in SECTIONS if kind in section.names]
    found = getattr(importlib.import_module(section.module), kind)
    entry = DOCUMENT.read_text().partition(f"### {kind}\n")[2].partition("\n### ")[0]
    for name in INTERNAL[kind]:
        assert hasattr(found, name)
        assert not re.search(rf"\b{name}\b[(`]", entry), f"{kind}.{name} is shown"
