"""Export of dead letters to JSON lines and Parquet."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from skyrocket.pipelines.deadletters import export
from skyrocket.pipelines.deadletters.export import export_letters
from skyrocket.pipelines.errors import ArgumentError
from tests.unit.pipelines.deadletters.letters import letter

LETTERS = [letter(0), letter(1, body=b"\xff\xfe", keys=("a", "b"), properties={"colour": "blå"})]


def test_json_lines_have_every_field(tmp_path: Path):
    path = tmp_path / "letters.jsonl"
    assert export_letters(LETTERS, path) == 2
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["body"], first["letter"], first["originTopic"], first["keys"]) == (
        "body 0",
        "broker-a:1000:M0",
        "orders",
        ["o-0"],
    )
    assert base64.b64decode(second["bodyBase64"]) == b"\xff\xfe"
    assert second["properties"] == {"colour": "blå"}


def test_parquet_has_every_field_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(export, "ROW_GROUP_LETTERS", 1)
    path = tmp_path / "letters.parquet"
    assert export_letters(iter(LETTERS), path) == 2
    rows = pq.read_table(path).to_pylist()
    assert [row["body"] for row in rows] == [b"body 0", b"\xff\xfe"]
    assert rows[1]["properties"] == [("colour", "blå")]
    assert pq.ParquetFile(path).num_row_groups == 2


@pytest.mark.parametrize("name", ["none.jsonl", "none.parquet"])
def test_no_letters_make_an_empty_file(tmp_path: Path, name: str):
    assert export_letters([], tmp_path / name) == 0
    assert (tmp_path / name).exists()


def test_a_failed_export_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "letters.jsonl"
    path.write_text("old")

    def letters():
        yield letter()
        raise RuntimeError("the broker is gone")

    with pytest.raises(RuntimeError):
        export_letters(letters(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "sentence"), [("letters.csv", "its ending must be .jsonl"), ("no/such/folder.jsonl", "cannot be written")]
)
def test_wrong_files_are_one_sentence(tmp_path: Path, name: str, sentence: str):
    with pytest.raises(ArgumentError, match=sentence):
        export_letters(LETTERS, tmp_path / name)
