from __future__ import annotations

import base64

import pytest

from skyrocket.protocol.message.recall_handle import RecallHandle, RecallHandleError, decode_recall_handle

APACHES = "djEgVCBiMSAxNzk0NzUwODI5MDAxIEFDMUYwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDEx"
HANDLE = RecallHandle("T", "b1", 1_794_750_829_001, "AC1F0000000000000000000000000011")


def test_a_recall_handle_equals_apaches():
    assert HANDLE.encode() == APACHES
    assert decode_recall_handle(APACHES) == HANDLE


@pytest.mark.parametrize("words", ["v2 T b1 5 x", "v1 T b1 5", "", "v1"])
def test_other_words_are_refused(words: str):
    with pytest.raises(RecallHandleError):
        decode_recall_handle(base64.urlsafe_b64encode(words.encode()).decode())


@pytest.mark.parametrize("text", ["!!", "é", "abc", "////"])
def test_text_that_is_not_base64_is_refused(text: str):
    with pytest.raises(RecallHandleError):
        decode_recall_handle(text)


def test_a_time_that_is_not_a_number_is_in_the_past():
    assert decode_recall_handle(base64.urlsafe_b64encode(b"v1 T b1 soon x").decode()).time_ms == -1
