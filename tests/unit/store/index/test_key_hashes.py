"""Hashing many keys at once gives the hash of each key, as Java computes it."""

from __future__ import annotations

from random import Random

import pytest

from skyrocket.protocol.message.tags import java_hash
from skyrocket.store.index.key_hashes import hash_keys
from tests.support.stores.store_messages import index_hash

ALPHABETS = ["0123456789ABCDEF", "".join(map(chr, range(128))), "aé☂😀"]


@pytest.mark.parametrize("seed", range(40))
def test_hashing_many_keys_equals_hashing_each(seed: int):
    rng = Random(seed)
    alphabet = ALPHABETS[seed % 3]
    topic = "".join(rng.choices(alphabet, k=rng.randrange(1, 40)))
    longest = rng.choice((8, 32, 40))
    keys = ["".join(rng.choices(alphabet, k=rng.randrange(longest + 1))) for _ in range(rng.choice((0, 1, 2, 128, 129, 400)))]
    assert hash_keys(topic, keys) == [index_hash(topic, key) for key in keys]


def test_integer_min_value_hashes_to_zero():
    assert java_hash("t#vjnOgNk") == -(2**31)
    assert hash_keys("t", ["vjnOgNk"]) == [0]


def test_hash_of_the_largest_characters_does_not_overflow_its_lane():
    keys = ["\x7f" * 32, "", "\x7f" * 32, "a"]
    assert hash_keys("\x7f" * 100, keys) == [index_hash("\x7f" * 100, key) for key in keys]
