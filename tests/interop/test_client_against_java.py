"""Parts of our client answer as Apache's own classes do: shares of a group, signatures, names with namespaces, files of offsets.

One Java program (java/ClientParts.java) is asked all questions in two runs, and once more about files.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skyrocket.client.consumer.offsets.offset_file import OffsetFile
from skyrocket.client.queues import Queue
from tests.support.apache.packages import JAVA_OPENS, compiled, library
from tests.support.client_questions import GOLDEN, our_answer, questions

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parent / "java" / "ClientParts.java"


def ask_java(asked: list[dict[str, Any]], offsets_folder: Path | None = None) -> list[Any]:
    properties = [f"-Drocketmq.client.localOffsetStoreDir={offsets_folder}"] if offsets_folder else []
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *JAVA_OPENS, *properties]
    command = ["java", *options, "-cp", f"{compiled(JAVA)}:{library()}/*", JAVA.stem]
    lines = "".join(json.dumps(question) + "\n" for question in asked).encode()
    done = subprocess.run(command, input=lines, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    answers = [json.loads(line) for line in done.stdout.decode().splitlines() if line[:1] in '{["']
    assert len(answers) == len(asked)
    return answers


def test_thousands_of_questions_have_the_same_answer_here_and_in_java():
    asked = list(questions(seed=20_260, allocations=6_000, others=700))
    wrong = [(q, theirs, our_answer(q)) for q, theirs in zip(asked, ask_java(asked), strict=True) if our_answer(q) != theirs]
    assert not wrong, f"{len(wrong)} of {len(asked)}: {wrong[0]}"


def test_the_questions_are_worth_asking():
    """Each strategy has many that are neither refused nor empty."""
    full: Counter[str] = Counter()
    for question in questions(seed=20_260, allocations=6_000, others=0):
        answer = our_answer(question)
        full[question["strategy"]["kind"]] += answer != "refused" and bool(answer["queues"])
    assert min(full[kind] for kind in ("averagely", "circle", "configured", "room", "nearby", "hash")) > 200, full


def test_the_answers_kept_for_tests_without_java_are_still_javas():
    kept = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    assert [one["answer"] for one in kept] == ask_java([one["question"] for one in kept])


QUEUES = [Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 11), Queue("%RETRY%é", "b@🚀", 3)]


def files_question(ask: str, offsets: list[int] | None = None) -> dict[str, Any]:
    return {"ask": ask, "client": "10.0.0.1@DEFAULT", "group": "wall", "queues": QUEUES, "offsets": offsets}


def test_java_and_we_read_and_write_one_file_of_offsets(tmp_path):
    ours = OffsetFile(tmp_path, "10.0.0.1@DEFAULT", "wall")
    ours.write(dict(zip(QUEUES, [5, 7, 1 << 40], strict=True)))
    ours.write({QUEUES[0]: 6})

    steps = [files_question("offsets-read"), files_question("offsets-write", [8, 9, 1 << 41])]
    assert ask_java(steps, tmp_path) == [[6, 7, 1 << 40], [8, 9, 1 << 41]]

    assert ours.read() == dict(zip(QUEUES, [8, 9, 1 << 41], strict=True))
    ours.path.write_bytes(b"")  # Java writes in place: a crash can leave this
    assert ours.read() == dict(zip(QUEUES, [6, 7, 1 << 40], strict=True)), "Java's backup is what we wrote before"
    ours.backup_path.unlink()
    assert ours.read() == {}
