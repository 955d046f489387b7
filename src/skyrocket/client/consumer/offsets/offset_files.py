"""Where a broadcasting consumer stands: every member reads every queue, so no broker keeps its offsets, and a file here does.

    <folder>/<client id>/<group>/offsets.json          the newest
    <folder>/<client id>/<group>/offsets.json.bak      the one before

Path and content are those of Apache's client (`~/.rocketmq_offsets`), which reads ours as we read its own. Each file is replaced
as a whole: after a crash at any instant there is one that can be read. Calls block for a disk's time; keep them off the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.durable_file import replace_file
from skyrocket.protocol.bodies import OffsetSerializeWrapper
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode_pretty
from skyrocket.protocol.limits import LENIENT_JSON_BYTES_MAX


class OffsetFileError(ClientError):
    """A file of offsets cannot be read or written, or has no place to be."""


def default_folder() -> Path:
    return Path.home() / ".rocketmq_offsets"


class OffsetFile:
    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        for name in (client_id, group):
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise OffsetFileError(f"{name!r} cannot be a folder's name, so there is no place for a file of offsets.")
        self.path = folder / client_id / group / "offsets.json"
        self.backup_path = self.path.with_name("offsets.json.bak")

    def read(self) -> dict[Queue, int]:
        """Nothing when there is no file yet. Where the newest is missing, empty or damaged, the one before."""
        return self._read()[1]

    def write(self, offsets: Mapping[Queue, int]) -> None:
        """Returns when they are on disk. Queues that are not in `offsets` keep what the file says."""
        content, before = self._read()
        table = {**before, **offsets}
        if table == before and content:
            return
        body = OffsetSerializeWrapper(offset_table={queue.as_body(): offset for queue, offset in table.items()})
        try:
            if content:
                replace_file(self.backup_path, content)
            replace_file(self.path, encode_pretty(body))
        except OSError as error:
            raise OffsetFileError(f"Offsets cannot be written to {self.path}: {error.strerror}.") from error

    def _read(self) -> tuple[bytes, dict[Queue, int]]:
        """The newest file's content, empty when it is not to be kept as a backup; and the offsets."""
        newest = self._content(self.path)
        if newest:
            try:
                return newest, _offsets(newest)
            except BodyError:
                pass  # a writer that does not replace as a whole was interrupted: that is what the other file is for
        backup = self._content(self.backup_path)
        if not backup:
            if newest:
                raise OffsetFileError(f"{self.path} is damaged, and there is no file before it; remove it to begin anew.")
            return b"", {}
        try:
            return b"", _offsets(backup)
        except BodyError as error:
            raise OffsetFileError(f"{self.backup_path} is damaged, and so is or missing the newer one: {error}") from error

    def _content(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                content = file.read(LENIENT_JSON_BYTES_MAX + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise OffsetFileError(f"Offsets cannot be read from {path}: {error.strerror}.") from error
        if len(content) > LENIENT_JSON_BYTES_MAX:
            raise OffsetFileError(f"{path} is larger than any file of offsets ({LENIENT_JSON_BYTES_MAX} bytes at most).")
        return content


def _offsets(content: bytes) -> dict[Queue, int]:
    return {Queue.of(queue): offset for queue, offset in decode(content, OffsetSerializeWrapper).offset_table.items()}
