"""Bodies as text, JSON and hex."""

from __future__ import annotations

import pytest

from skyrocket.console.body_views import best_view, preview_body, show_hex, view_body
from skyrocket.console.limits import BODY_BYTES_SHOWN, BODY_PREVIEW_CHARACTERS


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"a": 1}', "json"),
        (b" [1, 2]", "json"),
        (b'{"a": ', "text"),
        (b"plain text\nwith lines\t", "text"),
        ("Grüße".encode(), "text"),
        (b"", "text"),
        (b"\x00\x01\x02", "hex"),
        (b"\xff\xfe", "hex"),
        (b"bell \x07", "hex"),
    ],
)
def test_the_view_that_fits_a_body(body: bytes, kind: str):
    assert best_view(body) == kind == view_body(body).kind


def test_json_is_indented_and_says_what_the_body_says():
    body = b'{"price":1.10,"id":12345678901234567890123,"id":2,"list":[],"deep":{"x":[true,null,"\\u00e9<b>"]},"big":1e400}'
    assert view_body(body).text == (
        '{\n  "price": 1.10,\n  "id": 12345678901234567890123,\n  "id": 2,\n  "list": [],\n  "deep": {\n    "x": [\n      true,\n'
        '      null,\n      "é<b>"\n    ]\n  },\n  "big": 1e400\n}'
    )


def test_a_body_that_is_no_json_is_shown_as_text_when_json_is_asked_for():
    assert view_body(b"no json", "json")[:2] == ("text", "no json")
    assert view_body(b"[" * 100_000, "json").kind == "text"


def test_characters_that_a_browser_would_act_on_are_shown():
    assert view_body(b"a\x00b\xff", "text").text == "a\\x00b\\xff"
    assert view_body("a\u202eb".encode(), "text").text == "a\\u202eb"


def test_hex_has_offsets_bytes_and_characters():
    assert show_hex(b"0123456789abcdef!\xff").splitlines() == [
        "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef",
        "00000010  21 ff                                            !.",
    ]


def test_a_large_body_is_cut_and_says_so():
    view = view_body(b"x" * (BODY_BYTES_SHOWN + 1))
    assert (view.is_cut, view.shown_bytes, view.total_bytes) == (True, BODY_BYTES_SHOWN, BODY_BYTES_SHOWN + 1)
    assert view_body(("é" * BODY_BYTES_SHOWN).encode()).kind == "text"
    assert len(preview_body(b"word " * 1_000)) == BODY_PREVIEW_CHARACTERS
    assert preview_body(b"two\n  lines") == "two lines"
