"""`skyrocket store repair`: what it mends, what it keeps aside, and when it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skyrocket.cli.files.store import app
from skyrocket.client import sync as sync_client
from skyrocket.store.files import Disk
from skyrocket.store.recovery.recovery import Recovery
from skyrocket.testing import sync
from tests.support.stores.sample_stores import fingerprint, flip, golden_store, sample_store

COUNT = 60


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return sample_store(tmp_path / "store", COUNT)


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def run_json(*arguments: object) -> Any:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def dump(store: Path) -> list[str]:
    code, out, _ = run("dump", store, "--json")
    assert code == 0
    return out.splitlines()


def content(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and content of every file, without the lock, which whoever looks at the store takes."""
    return {name: (size, digest) for name, (size, _, digest) in fingerprint(folder).items() if name != "lock"}


def place(store: Path, offset: int) -> tuple[Path, int]:
    """The file of the log that has an offset, and the position in it."""
    paths = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    path = next(each for each in reversed(paths) if int(each.name) <= offset)
    return path, offset - int(path.name)


def kept(store: Path) -> Path:
    (found,) = store.glob("repaired-*")
    return found


def test_a_sound_store_is_left_alone(store: Path):
    before = content(store)
    code, out, _ = run("repair", store, "--yes")
    assert (code, out) == (0, f"Nothing in {store} needs a repair.\n")
    assert content(store) == before


def test_lost_queues_and_index_are_made_again(store: Path):
    messages = dump(store)
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)
    assert run("verify", store)[0] == 1
    code, out, err = run("repair", store, "--yes")
    assert (code, out) == (2, "")
    assert err.startswith(
        f"No consume queue file is left in {store} that shows its size. Give the broker's settings with --config"
    )
    assert not list(store.glob("repaired-*"))
    done = run_json("repair", store, "--yes", "--default-sizes")
    assert (done["messages"], done["left"]) == (COUNT, [])
    assert run("verify", store)[0] == 0
    assert dump(store) == messages
    one = json.loads(messages[5])
    queue = [
        json.loads(line)
        for line in run("dump", store, "--topic", one["topic"], "--queue", one["queueId"], "--json")[1].splitlines()
    ]
    assert one in queue


def test_a_dry_run_says_what_is_wrong_and_changes_nothing(store: Path):
    one = next(path for path in (store / "consumequeue").rglob("*") if path.is_file())
    one.unlink()
    before = content(store)
    plan = run_json("repair", store, "--dry-run")
    assert plan["dryRun"] is True
    assert plan["findings"]
    code, out, err = run("repair", store)
    assert (code, out) == (2, "")
    assert "Confirm it with --yes, or look first with --dry-run." in err
    assert content(store) == before


def test_damage_is_set_aside_and_the_other_messages_stay(store: Path):
    messages = [json.loads(line) for line in dump(store)]
    path, at = place(store, messages[20]["physicalOffset"])
    flip(path, at + 60)
    code, out, _ = run("repair", store, "--yes", "--json")
    done = json.loads(out)
    assert (code, len(done["damaged"])) == (1, 1)
    assert "they were damaged, were set aside in 'damaged'" in done["left"][0]
    assert all("damaged" in finding or "message" in finding for finding in done["left"]), done["left"]
    assert any(sentence.startswith("DAMAGE") for sentence in done["did"])
    assert [one["msgId"] for one in map(json.loads, dump(store))] == [one["msgId"] for one in messages if one != messages[20]]
    (aside,) = (store / "damaged").iterdir()
    assert int(aside.name.partition("-")[0]) == messages[20]["physicalOffset"]


def test_a_torn_tail_is_cut_and_kept(store: Path):
    messages = dump(store)
    last = json.loads(messages[-1])["physicalOffset"]
    path, at = place(store, last)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[at : at + 4], "big")
    end = at + size
    half = bytes(data[at : at + size // 2])
    data[end : end + len(half)] = half  # a message that was being written when the machine stopped
    path.write_bytes(data)
    (store / "abort").write_bytes(b"skyrocket\n")
    done = run_json("repair", store, "--yes")
    assert done["tailBytes"] == len(half.rstrip(b"\0"))
    assert dump(store) == messages
    (tail,) = kept(store).glob("log-tail-*")
    assert tail.read_bytes() == half.rstrip(b"\0")
    assert not any(path.read_bytes()[end:])
    assert run("verify", store)[0] == 0


def test_what_is_replaced_is_kept_aside(store: Path):
    queues = content(store / "consumequeue")
    code, out, _ = run("repair", store, "--yes", "--force")
    assert (code, "Everything fits together now." in out) == (0, True)
    assert content(kept(store) / "consumequeue") == queues
    assert {path.name for path in kept(store).iterdir()} == {"consumequeue", "index", "checkpoint"}
    assert content(store / "consumequeue") == queues


def test_a_store_that_a_broker_has_open_is_refused(store: Path):
    release = Disk().lock(str(store / "lock"))
    assert release is not None
    code, out, err = run("repair", store, "--yes", "--force")
    assert (code, out, err) == (2, "", f"A broker has the store in {store} open. Stop it first.\n")
    release()
    assert run("repair", store, "--yes", "--force")[0] == 0


def test_a_repair_that_was_killed_is_repeated(store: Path, monkeypatch: pytest.MonkeyPatch):
    messages = dump(store)
    queues = content(store / "consumequeue")

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "run", die)
        assert run("repair", store, "--yes", "--force")[0] != 0
    assert not (store / "consumequeue").exists()
    done = run_json("repair", store, "--yes")
    assert (done["messages"], done["left"]) == (COUNT, [])
    assert dump(store) == messages
    assert content(store / "consumequeue") == queues


def test_a_broker_serves_what_was_repaired_and_keeps_the_repair_out_while_it_runs(tmp_path: Path):
    with sync.LocalBroker(folder=tmp_path) as broker:
        broker.create_topic("orders", queues=2)
        with sync_client.Producer(broker.nameserver) as producer:
            for number in range(20):
                producer.send(sync_client.Message("orders", b"%d" % number, keys=[f"o-{number}"]))
        (log,) = tmp_path.rglob("commitlog")
        store = log.parent
        code, _, err = run("repair", store, "--yes", "--force")
        assert (code, err) == (2, f"A broker has the store in {store} open. Stop it first.\n")
        with sync_client.Admin(broker.nameserver) as admin:
            settings = admin.cluster.config("broker-a")
    shutil.rmtree(store / "index")
    shutil.rmtree(store / "consumequeue")
    names = ("mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={settings[name]}\n" for name in names))
    assert run_json("repair", store, "--yes", "--config", conf)["left"] == []
    with sync.LocalBroker(folder=tmp_path) as broker:
        assert sorted(int(message.body) for message in broker.messages("orders")) == list(range(20))
        with sync_client.Admin(broker.nameserver) as admin:
            assert [one.body for one in admin.messages.by_key("orders", "o-7")] == [b"7"]


def test_the_log_may_lie_in_another_directory(store: Path, tmp_path: Path):
    messages = dump(store)
    log = (store / "commitlog").rename(tmp_path / "log")
    next(path for path in (store / "consumequeue").rglob("*") if path.is_file()).unlink()
    assert run_json("repair", store, "--commit-log", log, "--yes")["left"] == []
    code, out, _ = run("dump", store, "--commit-log", log, "--json")
    assert (code, out.splitlines()) == (0, messages)
    assert not (store / "commitlog").exists()


def test_apaches_store_is_repaired(tmp_path: Path):
    store = golden_store(tmp_path)
    messages = dump(store)
    shutil.rmtree(store / "consumequeue")
    assert run_json("repair", store, "--yes", "--default-sizes")["left"] == []
    assert dump(store) == messages
