"""Signatures. That they are Java's, golden/ and interop/ say."""

from __future__ import annotations

import pytest

from skyrocket.client.errors import ClientError
from skyrocket.client.session.credentials import Credentials, signed_fields

ME = Credentials("rocketmq", "12345678")


def test_a_signed_request_says_who_asks_and_proves_it():
    signed = signed_fields({"topic": "orders", "queueId": "3"}, b"body", ME)
    assert signed == {"topic": "orders", "queueId": "3", "AccessKey": "rocketmq", "Signature": signed["Signature"]}
    assert len(signed["Signature"]) == 28


def test_the_order_of_fields_does_not_matter_and_every_value_and_the_body_do():
    fields = {"topic": "orders", "queueId": "3"}
    signature = signed_fields(fields, b"body", ME)["Signature"]
    assert signed_fields(dict(reversed(fields.items())), b"body", ME)["Signature"] == signature
    others = [
        ({**fields, "queueId": "4"}, b"body", ME),
        (fields, b"bodies", ME),
        (fields, b"body", Credentials("rocketmq", "other")),
    ]
    assert signature not in [signed_fields(*other)["Signature"] for other in others]


def test_a_request_that_is_sent_again_is_signed_anew():
    once = signed_fields({"topic": "orders"}, b"", ME)
    assert signed_fields(once, b"", ME) == once


def test_a_temporary_login_sends_its_token():
    assert signed_fields({}, b"", Credentials("a", "b", "token"))["SecurityToken"] == "token"
    assert "SecurityToken" not in signed_fields({}, b"", ME)


def test_secrets_are_not_shown():
    assert "12345678" not in repr(ME)
    assert "token" not in repr(Credentials("a", "b", "token")).replace("security_token", "")


def test_half_of_a_login_is_refused():
    with pytest.raises(ClientError, match="one of them is empty"):
        Credentials("rocketmq", "")
