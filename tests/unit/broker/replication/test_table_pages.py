"""A slave fetches a table of its master page by page."""

from __future__ import annotations

from skyrocket.broker.replication.table_pages import PAGE, TablePages, TrustedVersion
from skyrocket.protocol.bodies import DataVersion

OWN, NEW, NEWER = (DataVersion(counter=counter) for counter in range(3))


def test_unchanged_table_ends_with_the_first_page():
    pages: TablePages[int] = TablePages(OWN)
    assert pages.request_fields() == (0, PAGE, "")
    assert not pages.add({"a": 1}, OWN, total=5_000)
    assert pages.table is None


def test_version_is_trusted_when_a_second_fetch_brings_it_again():
    trusted = TrustedVersion()
    assert trusted.of(OWN) is None
    trusted.record_fetch(OWN, NEW)  # the table has the version NEW now, perhaps with the content of OWN
    assert trusted.of(NEW) is None
    trusted.record_fetch(NEW, NEW)
    assert trusted.of(NEW) == NEW
    assert trusted.of(NEWER) is None  # the slave has changed its table since


def test_pages_are_put_together():
    pages: TablePages[int] = TablePages(OWN)
    assert pages.add({"a": 1, "b": 2}, NEW, total=3)
    first, _, version = pages.request_fields()
    assert first == 2
    assert '"counter":1' in version
    assert pages.table is None
    assert not pages.add({"c": 3}, NEW, total=3)
    assert pages.table == {"a": 1, "b": 2, "c": 3}


def test_pages_begin_anew_when_the_table_changes_meanwhile():
    pages: TablePages[int] = TablePages(OWN)
    assert pages.add({"a": 1, "b": 2}, NEW, total=3)
    assert pages.add({"a": 1, "d": 4}, NEWER, total=3)
    assert pages.request_fields()[0] == 2
    assert not pages.add({"e": 5}, NEWER, total=3)
    assert pages.table == {"a": 1, "d": 4, "e": 5}
    assert pages.version == NEWER


def test_master_of_an_older_version_sends_one_page():
    pages: TablePages[int] = TablePages(OWN)
    assert not pages.add({"a": 1}, NEW, total=None)
    assert pages.table == {"a": 1}


def test_master_that_sends_no_more_entries_is_not_asked_for_ever():
    pages: TablePages[int] = TablePages(OWN)
    assert pages.add({"a": 1}, NEW, total=9)
    assert not pages.add({}, NEW, total=9)
    assert pages.table == {"a": 1}
