from __future__ import annotations

import base64

import pytest

from skyrocket.protocol.message.recall_handle import RecallHandle, RecallHandleError, decode_recall_handle

APACHES = "djEgVCBiMSAxNzk0NzUwODI5MDAxIEFDMUYwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDEx"
HANDLE = RecallHandle("T", "b1", 1_794_750_829_001, "AC1F0000000000000000000000000011")


def test_it_is_what_apache_makes():
    assert HANDLE.encode() == APACHES
    assert decode_recall_handle(APACHES) == HANDLE


@pytest.mark.parametrize("words", ["v2 T b1 5 x", "v1 T b1 5", "", "v1"])
def test_other_words_are_no_handle(words: str):
    with pytest.raises(RecallHandleError):
        decode_recall_handle(base64.urlsafe_b64encode(words.encode()).decode())


@pytest.mark.parametrize("text", ["!!", "é", "abc", "////"])
def test_other_text_is_no_handle(text: str):
    with pytest.raises(RecallHandleError):
        decode_recall_handle(text)


def test_a_time_that_is_no_number_is_over():
    assert decode_recall_handle(base64.urlsafe_b64encode(b"v1 T b1 soon x").decode()).time_ms == -1
