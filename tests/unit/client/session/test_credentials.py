"""Signatures of requests. Tests in golden/ and interop/ compare them with Java's."""

from __future__ import annotations

import pytest

from skyrocket.client.errors import ClientError
from skyrocket.client.session.credentials import Credentials, sign_fields

ME = Credentials("rocketmq", "12345678")


def test_signed_request_has_access_key_and_signature():
    signed = sign_fields({"topic": "orders", "queueId": "3"}, b"body", ME)
    assert signed == {"topic": "orders", "queueId": "3", "AccessKey": "rocketmq", "Signature": signed["Signature"]}
    assert len(signed["Signature"]) == 28


def test_signature_depends_on_values_body_and_secret_but_not_on_field_order():
    fields = {"topic": "orders", "queueId": "3"}
    signature = sign_fields(fields, b"body", ME)["Signature"]
    assert sign_fields(dict(reversed(fields.items())), b"body", ME)["Signature"] == signature
    others = [
        ({**fields, "queueId": "4"}, b"body", ME),
        (fields, b"bodies", ME),
        (fields, b"body", Credentials("rocketmq", "other")),
    ]
    assert signature not in [sign_fields(*other)["Signature"] for other in others]


def test_signing_a_signed_request_gives_the_same_signature():
    once = sign_fields({"topic": "orders"}, b"", ME)
    assert sign_fields(once, b"", ME) == once


def test_security_token_is_sent():
    assert sign_fields({}, b"", Credentials("a", "b", "token"))["SecurityToken"] == "token"
    assert "SecurityToken" not in sign_fields({}, b"", ME)


def test_repr_hides_secrets():
    assert "12345678" not in repr(ME)
    assert "token" not in repr(Credentials("a", "b", "token")).replace("security_token", "")


def test_empty_secret_key_is_refused():
    with pytest.raises(ClientError, match="non-empty secret_key"):
        Credentials("rocketmq", "")
