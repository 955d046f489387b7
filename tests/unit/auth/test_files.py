"""Sealed passwords, the file of users and rules, and the conversion of plain_acl.yml."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.auth.access_file import decode_table, encode_table
from skyrocket.auth.access_table import AccessTable
from skyrocket.auth.errors import AccessError, SealError
from skyrocket.auth.plain_acl import convert_plain_acl
from skyrocket.auth.sealing import seal, unseal
from skyrocket.auth.simple_yaml import read_simple_yaml
from skyrocket.auth.users import UserType

KEY = bytes(range(32))
NONCE = bytes(16)

PLAIN_ACL = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group is converted to its retry topic
  - groupA=DENY
  - groupB=PUB|SUB
- accessKey: rocketmq2
  secretKey: "1234 #5678"   # with a blank
  whiteRemoteAddress: 192.168.1.*
  admin: true
  topicPerms: [t=ANY]
- accessKey: RocketMQ
  secretKey: second
"""


@given(st.text(max_size=200), st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16))
def test_a_sealed_text_opens_with_its_key_and_no_other(text: str, key: bytes, nonce: bytes):
    sealed = seal(key, nonce, text)
    assert unseal(key, sealed) == text
    other = bytes([key[0] ^ 1]) + key[1:]
    with pytest.raises(SealError):
        unseal(other, sealed)


def test_every_changed_bit_of_a_sealed_text_is_noticed():
    data = b64decode(seal(KEY, NONCE, "secret"))
    for at in range(len(data) * 8):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(SealError):
            unseal(KEY, b64encode(changed).decode())
    for broken in ("", "x", "é", b64encode(data[:40]).decode()):
        with pytest.raises(SealError):
            unseal(KEY, broken)


def test_sealed_texts_of_one_password_differ_and_do_not_contain_it():
    sealed = {seal(KEY, os.urandom(16), "secret-secret") for _ in range(10)}
    assert len(sealed) == 10
    assert all(b"secret" not in b64decode(text) for text in sealed)


def test_the_file_returns_the_table_and_shows_no_password():
    table = convert_plain_acl(PLAIN_ACL).add_to(AccessTable())
    content = encode_table(table, KEY, lambda: os.urandom(16))
    assert decode_table(content, KEY) == table
    assert b"12345678" not in content
    assert b"5678" not in repr(table).encode()
    for damaged, words in (
        (content[:-1], "not JSON"),
        (b'{"format":2}', "format 2"),
        (content.replace(b'"password":"', b'"password":"A'), "password"),
    ):
        with pytest.raises(AccessError, match=words):
            decode_table(damaged, KEY)


def test_plain_acl_is_converted_as_apache_migrates_it():
    converted = convert_plain_acl(PLAIN_ACL)
    table = converted.add_to(AccessTable())
    assert [(user.name, user.password, user.type) for user in table.users.values()] == [
        ("RocketMQ", "12345678", UserType.NORMAL),
        ("rocketmq2", "1234 #5678", UserType.SUPER),
    ]
    shown = {
        f"{policy}: {entry.resource} {','.join(entry.actions)} {entry.effect}"
        for policy, entries in table.acls["RocketMQ"].policies()
        for entry in entries
    }
    assert shown == {
        "Custom: Topic:topicA All Deny",
        "Custom: Topic:topicB Pub,Sub Allow",
        "Custom: Topic:topicC Sub Allow",
        "Custom: Group:groupA All Deny",
        "Custom: Group:groupB Pub,Sub Allow",
        "Default: Topic:* All Deny",
        "Default: Group:* Sub Allow",
    }
    assert [str(entry.effect) for entry in table.acls["rocketmq2"].custom] == ["Allow"]
    assert len(converted.left_out) == 2
    assert converted.add_to(table) == table


@pytest.mark.parametrize(
    "text",
    ["accounts: 7", "accounts:\n- accessKey: a", "a: &x 1", "\ta: 1", "a: [1", "a: 'x", "- a", "a: 1\n   b: 2", "a: |\n  x"],
)
def test_what_is_no_plain_acl_is_refused_without_showing_it(text: str):
    with pytest.raises(AccessError) as refused:
        convert_plain_acl(text)
    assert "&x" not in str(refused.value)


def test_numbers_and_comments_of_yaml():
    assert read_simple_yaml("a: 0123 # c\nb: 'x # y'\n# d\nc:\nd: []\ne: x#y\n") == {
        "a": "0123",
        "b": "x # y",
        "c": None,
        "d": [],
        "e": "x#y",
    }
    assert read_simple_yaml("") == {}
