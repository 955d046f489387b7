"""The reference says what the source says."""

from __future__ import annotations

from tools.client_reference import DOCUMENT, ELSEWHERE, SECTIONS, reference

from skyrocket import client


def test_the_reference_is_up_to_date():
    assert DOCUMENT.read_text() == reference(), "the source says otherwise by now: make reference"


def test_everything_that_users_import_is_in_it():
    told = {name for section in SECTIONS for name in section.names}
    assert set(client.__all__) - ELSEWHERE <= told
