from __future__ import annotations

import json
from random import Random

import pytest

from skyrocket.protocol.fastjson.leniency import quote_integer_keys


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b"{0:7,1:9}", b'{"0":7,"1":9}'),
        (b'{\n\t-3 : {12:"a"},\r\n 4:[1,2]}', b'{\n\t"-3" : {"12":"a"},\r\n "4":[1,2]}'),
        (b'{"a":1,"b":[1,2,3]}', b'{"a":1,"b":[1,2,3]}'),
        (b'{"x{1:2,":{5:6}}', b'{"x{1:2,":{"5":6}}'),
        (b'{"x\\"{1:2":{5:6}}', b'{"x\\"{1:2":{"5":6}}'),
        (b'{"x\\\\":{5:6},"y,7:":8}', b'{"x\\\\":{"5":6},"y,7:":8}'),
        (b"", b""),
    ],
)
def test_integer_keys_get_quotes_and_strings_stay(text: bytes, quoted: bytes):
    assert quote_integer_keys(text) == quoted


@pytest.mark.parametrize("seed", range(50))
def test_any_value_stays_the_same(seed: int):
    rng = Random(seed)

    def value(depth: int) -> object:
        kind = rng.randrange(4 if depth else 2)
        if kind == 0:
            return rng.randrange(-9, 99)
        if kind == 1:
            return "".join(rng.choice('{},:"\\0 7é') for _ in range(rng.randrange(6)))
        if kind == 2:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        return {str(value(0)): value(depth - 1) for _ in range(rng.randrange(4))}

    made = {str(number): value(3) for number in range(4)}
    text = json.dumps(made, indent=rng.choice((None, 1)), ensure_ascii=False).encode()
    assert json.loads(quote_integer_keys(text)) == made
