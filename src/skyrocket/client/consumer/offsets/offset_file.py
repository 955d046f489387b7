"""The local offset file of a broadcasting consumer. Every member reads every queue, so brokers keep no offsets for it.

    <folder>/<client id>/<group>/offsets.json          the newest offsets
    <folder>/<client id>/<group>/offsets.json.bak      the offsets before them

Path and content equal those of Apache's client (`~/.rocketmq_offsets`), so either client reads the other's file. Each file is
replaced atomically: after a crash at any instant, one of the two is readable. Calls block on the disk; run them in a thread.
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
    """An offset file cannot be read or written, or its path is not valid."""


def default_folder() -> Path:
    """The folder that Apache's client uses, too."""
    return Path.home() / ".rocketmq_offsets"


class OffsetFile:
    """The offset file of one client and group."""

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        for name in (client_id, group):
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise OffsetFileError(
                    f"{name!r} is not a valid folder name for an offset file. Choose another instance or group."
                )
        self.path = folder / client_id / group / "offsets.json"
        self.backup_path = self.path.with_name("offsets.json.bak")

    def read(self) -> dict[Queue, int]:
        """Read the offsets: empty without a file, from the backup if the newest file is missing, empty or damaged."""
        return self._read()[1]

    def write(self, offsets: Mapping[Queue, int]) -> None:
        """Write offsets and return when they are on disk. Queues that are not in `offsets` keep their offset in the file."""
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
        """Return the content of the newest file (empty if it must not become the backup) and the offsets."""
        newest = self._read_content(self.path)
        if newest:
            try:
                return newest, _decode_offsets(newest)
            except BodyError:
                pass  # a writer that does not replace files atomically was interrupted: use the backup
        backup = self._read_content(self.backup_path)
        if not backup:
            if newest:
                raise OffsetFileError(
                    f"{self.path} is damaged, and there is no backup. Remove the file to start without offsets."
                )
            return b"", {}
        try:
            return b"", _decode_offsets(backup)
        except BodyError as error:
            raise OffsetFileError(
                f"{self.backup_path} is damaged, and {self.path.name} is damaged or missing: {error} "
                "Remove both files to start without offsets."
            ) from error

    def _read_content(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                content = file.read(LENIENT_JSON_BYTES_MAX + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise OffsetFileError(f"Offsets cannot be read from {path}: {error.strerror}.") from error
        if len(content) > LENIENT_JSON_BYTES_MAX:
            raise OffsetFileError(f"{path} is too large for an offset file: the limit is {LENIENT_JSON_BYTES_MAX} bytes.")
        return content


def _decode_offsets(content: bytes) -> dict[Queue, int]:
    return {Queue.of(queue): offset for queue, offset in decode(content, OffsetSerializeWrapper).offset_table.items()}
