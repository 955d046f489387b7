"""Fields of forms, pages of lists."""

from __future__ import annotations

import pytest

from skyrocket.console.errors import InputError
from skyrocket.console.forms import parse_fields
from skyrocket.console.limits import FORM_FIELDS_MAX, ROWS_PER_PAGE
from skyrocket.console.paging import cut_page, search_names
from skyrocket.console.visit import address_of


def test_fields_are_decoded_and_the_first_of_several_counts():
    fields = parse_fields("topic=a+b%25&topic=second&letter=1&letter=2&on=1&off=0&empty=")
    assert fields.text("topic") == "a b%"
    assert fields.all("letter") == ["1", "2"]
    assert (fields.is_set("on"), fields.is_set("off"), fields.is_set("empty"), fields.is_set("none")) == (
        True,
        False,
        False,
        False,
    )


def test_a_body_keeps_its_white_space_and_gets_plain_line_ends():
    assert parse_fields("body=++a%0D%0Ab%C3%A9+").raw("body") == "  a\nbé "


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 30, "٣"])
def test_a_number_out_of_its_range_is_refused(text: str):
    with pytest.raises(InputError, match="whole number from 0 to 8"):
        parse_fields(f"queues={text}").number("queues", "The number", 0, 8)


def test_times_without_a_zone_are_utc():
    fields = parse_fields("a=2027-01-15T08:00&b=2027-01-15T09:00:00%2B01:00&c=1800000000000&d=yesterday&e=")
    assert fields.moment_ms("a", "It") == fields.moment_ms("b", "It") == 1_800_000_000_000 == fields.moment_ms("c", "It")
    assert fields.moment_ms("e", "It") is None
    with pytest.raises(InputError, match="not 'yesterday'"):
        fields.moment_ms("d", "It")


def test_lines_of_pairs_choices_and_confirmations():
    fields = parse_fields("properties=a%3D1%0D%0A%0D%0Ab%3Dx%3Dy&bad=novalue&perm=rwx&confirm=orders")
    assert fields.pairs_of_lines("properties", "Properties") == {"a": "1", "b": "x=y"}
    with pytest.raises(InputError, match="lines of name=value"):
        fields.pairs_of_lines("bad", "Properties")
    with pytest.raises(InputError, match="one of rw, r"):
        fields.choice("perm", "The permission", ("rw", "r"))
    fields.confirm("orders")
    with pytest.raises(InputError, match="Type order to confirm"):
        fields.confirm("order")


def test_a_form_has_a_bounded_number_of_fields():
    with pytest.raises(InputError, match="at most"):
        parse_fields("&".join(f"a{n}=1" for n in range(FORM_FIELDS_MAX + 1)))


# --- lists


def test_names_with_all_words_are_found_and_those_that_begin_so_come_first():
    names = ["bill-orders", "Orders", "orders-eu", "returns"]
    assert search_names(names, " ORD ") == ["Orders", "orders-eu", "bill-orders"]
    assert search_names(names, "orders eu") == ["orders-eu"]
    assert search_names(names, "") == names
    assert search_names(names, "<script>") == []


def test_pages_of_a_list():
    names = [str(number) for number in range(2 * ROWS_PER_PAGE + 1)]
    page = cut_page(names, 2)
    assert (page.first, page.last, page.pages, page.total) == (ROWS_PER_PAGE + 1, 2 * ROWS_PER_PAGE, 3, len(names))
    assert list(cut_page(names, 99).rows) == [names[-1]]
    assert list(cut_page(names, -3).rows) == names[:ROWS_PER_PAGE]
    assert (cut_page([], 1).first, cut_page([], 1).last, cut_page([], 1).pages) == (0, 0, 1)


def test_addresses_are_encoded():
    assert address_of("topics", "%RETRY%a/b?c", "change") == "/topics/%25RETRY%25a%2Fb%3Fc/change"
    assert address_of("topics", q="a&b", page=2, internal="") == "/topics?q=a%26b&page=2"
