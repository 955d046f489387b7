"""`Disk`, the real file system behind the port."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from skyrocket.store.files import Disk, OpenFiles

TRY_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except OSError:
        print("refused")
    else:
        print("taken")
"""


def java_would_be(path: str) -> str:
    """Try to lock the first byte as Java does, with a POSIX lock of another process."""
    done = subprocess.run([sys.executable, "-c", TRY_LOCK, path], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_new_file_is_all_zeros_and_allocated_on_disk(tmp_path: Path):
    path = f"{tmp_path}/a/b/file"
    file = Disk().create(path, 100_000, 50_000)
    assert (file.size, file.read(0, 5), Disk().size(path)) == (100_000, bytes(5), 100_000)
    assert Path(path).stat().st_blocks * 512 >= 50_000
    file.close()


def test_data_ends_where_the_last_bytes_were_written(tmp_path: Path):
    file = Disk().create(f"{tmp_path}/file", 1 << 24, 1 << 24)
    assert file.data_end(0) == 0
    file.write(0, b"hello")
    file.write(1 << 20, b"hello")
    assert (1 << 20) + 5 <= file.data_end(0) < 1 << 24
    assert file.data_end(1 << 22) == 1 << 22
    file.write((1 << 24) - 1, b"!")
    assert file.data_end(0) == file.data_end(1 << 22) == 1 << 24


def test_creating_an_existing_file_fails(tmp_path: Path):
    path = f"{tmp_path}/file"
    Disk().create(path, 10, 0).close()
    with pytest.raises(FileExistsError):
        Disk().create(path, 10, 0)


def test_failed_allocation_leaves_no_file(tmp_path: Path):
    with pytest.raises(OSError, match=r".+"):
        Disk().create(f"{tmp_path}/file", 1 << 62, 1 << 62)
    assert Disk().names(str(tmp_path)) == []


def test_a_view_is_live_and_a_window_writes(tmp_path: Path):
    file = Disk().create(f"{tmp_path}/file", 8192, 8192)
    view = file.view()
    file.write(10, b"hello")
    assert bytes(view[10:15]) == b"hello"
    file.window(4096)[0:3] = b"abc"
    assert bytes(view[:3]) == b"abc"
    assert file.read(0, 3) == b"abc"
    with pytest.raises(TypeError):
        view[0] = 1
    file.prefetch(0, 8192)
    file.sync()
    file.close()


@pytest.mark.parametrize("size", [10, 4096, 5000, 100_000, 1024 * 1024 + 1])
def test_what_is_synced_is_read_from_the_disk(tmp_path: Path, size: int):
    data = Random(size).randbytes(size)
    file = Disk().create(f"{tmp_path}/file", size, size)
    file.write(0, data)
    file.sync()
    assert file.read_from_disk(0, size) == data
    if size > 8192:
        assert file.read_from_disk(4096, size - 4096) == data[4096:]
        assert file.read_from_disk(4096, 17) == data[4096:4113]
    file.close()


def test_window_of_a_sparse_file_is_allocated(tmp_path: Path):
    """A file that was copied sparsely has no space on disk: a full disk must be an error, and no SIGBUS."""
    path = tmp_path / "file"
    with path.open("wb") as sparse:
        sparse.truncate(1024 * 1024)
    assert path.stat().st_blocks == 0
    file = Disk().open(str(path), writable=True)
    window = file.window(256 * 1024)
    assert path.stat().st_blocks * 512 >= 256 * 1024
    window[:3] = b"abc"
    assert file.read(0, 3) == b"abc"


def test_a_view_stays_readable_when_the_file_is_closed_and_removed(tmp_path: Path):
    path = f"{tmp_path}/file"
    file = Disk().create(path, 4096, 0)
    file.write(0, b"still here")
    view = file.view()
    file.close()
    Disk().remove(path)
    assert bytes(view[:10]) == b"still here"


def test_write_outside_the_file_fails_an_assertion(tmp_path: Path):
    file = Disk().create(f"{tmp_path}/file", 10, 0)
    with pytest.raises(AssertionError):
        file.write(5, b"too long")
    file.close()


def test_a_small_file_is_replaced_whole(tmp_path: Path):
    path = f"{tmp_path}/new/file"
    Disk().replace(path, b"one")
    Disk().replace(path, b"two!")
    assert Disk().read(path) == b"two!"
    assert Disk().names(f"{tmp_path}/new") == ["file"]


def test_missing_directory_has_no_names_and_can_be_removed(tmp_path: Path):
    disk = Disk()
    assert disk.names(f"{tmp_path}/nothing") == []
    assert not disk.exists(f"{tmp_path}/nothing")
    disk.remove(f"{tmp_path}/nothing")
    disk.remove(f"{tmp_path}/nothing/at/all")


def test_directory_is_removed_with_its_content(tmp_path: Path):
    Disk().replace(f"{tmp_path}/a/b/c", b"x")
    Disk().remove(f"{tmp_path}/a")
    assert Disk().names(str(tmp_path)) == []


def test_lock_excludes_this_process_and_other_processes(tmp_path: Path):
    path = f"{tmp_path}/lock"
    release = Disk().lock(path)
    assert release is not None
    assert Disk().lock(path) is None
    assert java_would_be(path) == "refused", "also after another of ours tried, and closed the file again"
    release()
    assert java_would_be(path) == "taken"
    again = Disk().lock(path)
    assert again is not None
    again()


def test_lock_held_by_java_is_respected(tmp_path: Path):
    path = f"{tmp_path}/lock"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl,sys; f=open(sys.argv[1],'w+b'); fcntl.lockf(f,fcntl.LOCK_EX,1); print(1,flush=True); input()",
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    assert Disk().lock(path) is None
    holder.communicate(b"\n")
    release = Disk().lock(path)
    assert release is not None
    release()


def test_used_percent_equals_df(tmp_path: Path):
    assert 0 <= Disk().used_percent(str(tmp_path)) <= 100


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_least_recently_used_file_is_closed_at_the_limit(tmp_path: Path):
    disk = Disk()
    opened = OpenFiles(disk, 3)
    before = open_descriptors()
    for number in range(20):
        opened.create(f"{tmp_path}/{number}", 10, 0).write(0, b"%02d" % number)
    assert open_descriptors() == before + 3
    assert [opened.get(f"{tmp_path}/{number}").read(0, 2) for number in range(20)] == [b"%02d" % n for n in range(20)]
    assert open_descriptors() == before + 3
    first = opened.get(f"{tmp_path}/0")
    for number in (1, 0, 2, 0, 3, 0, 4):
        opened.get(f"{tmp_path}/{number}")
    assert opened.get(f"{tmp_path}/0") is first
    opened.forget(f"{tmp_path}/0")
    assert opened.get(f"{tmp_path}/0") is not first
    del first
    opened.close()
    assert open_descriptors() == before


def test_linux_has_open_file_description_locks():
    assert hasattr(fcntl, "F_OFD_SETLK")
