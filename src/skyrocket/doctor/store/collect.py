"""Reads the facts of a store directory, ours or Apache's, while its broker runs or not. Nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skyrocket.doctor.disk_levels import CLEAN_DEFAULT, CLEAN_SETTING, REFUSE_DEFAULT, REFUSE_SETTING, DiskLevels
from skyrocket.doctor.machine.collect import find_process
from skyrocket.doctor.store.facts import CheckpointFacts, StoreFacts, VerifiedFacts
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.store.errors import StoreError, StoreFormatError
from skyrocket.store.files import Disk
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.log.segment_ages import SegmentAges
from skyrocket.store.log.segments import segment_name
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.offline.verify import VerifyCounts, verify
from skyrocket.store.paths import StorePaths

VERIFY_BYTES_MAX: Final = 2 * 1024**3  # a larger log takes minutes to read: `skyrocket store verify` does it
FINDINGS_MAX: Final = 5
KEPT_HOURS_DEFAULT: Final = 72
GRACE_HOURS: Final = 24  # files are deleted once a day, at deleteWhen
SETTINGS_FILE: Final = "skyrocket.properties"  # in config/: settings that were changed at run time
_HOUR_MS: Final = 3_600_000


class StoreCollector:
    def __init__(self, directory: Path, commit_log: Path | None = None, proc: Path = Path("/proc")) -> None:
        self._directory = directory
        self._commit_log = commit_log
        self._proc = proc
        self._files = Disk()

    def collect(self, now_ms: int) -> StoreFacts:
        """Read everything. Raises StoreError when there is no store."""
        settings = self._read_settings()
        disk = self._read_disk(settings)
        plain = StorePaths(self._directory)
        try:
            with OfflineStore(self._directory, commit_log=self._commit_log) as store:
                return self._read_store(store, disk, settings, now_ms)
        except StoreFormatError as error:
            if not self._has_log(plain):
                raise
            return StoreFacts(str(self._directory), disk, layout_error=str(error))

    def _has_log(self, paths: StorePaths) -> bool:
        """Whether the directory has a log of any layout. Without one it is no store at all."""
        names = _names(paths.root)
        return "commitlog" in names or any(name.startswith("dledger-") for name in names)

    def _read_store(self, store: OfflineStore, disk: DiskLevels, settings: Mapping[str, str], now_ms: int) -> StoreFacts:
        paths, log = store.paths, store.log
        kept_hours = _read_number(settings, "fileReservedTime", KEPT_HOURS_DEFAULT)
        ages = SegmentAges(self._files, log.path, log.framing).last_stored_ms(log.starts, now_ms)
        limit_ms = now_ms - (kept_hours + GRACE_HOURS) * _HOUR_MS
        expired = [(start, stored_ms) for start, stored_ms in zip(log.starts, ages, strict=False) if 0 < stored_ms < limit_ms]
        log_bytes = len(log.starts) * log.segment_bytes
        is_locked = self._files.is_locked(paths.lock)
        return StoreFacts(
            str(self._directory),
            disk,
            is_locked=is_locked,
            process_id=find_process(self._proc, Path(paths.lock)) if is_locked else None,
            has_abort_file=store.is_open,
            has_failed_flush=self._files.exists(paths.sync_failed),
            log_bytes=log_bytes,
            checkpoint=_read_checkpoint(store),
            verified=self._verify() if log_bytes <= VERIFY_BYTES_MAX else None,
            damaged_files=_names(paths.damaged),
            diverged_files=_names(paths.diverged),
            kept_hours=kept_hours,
            expired_segments=[segment_name(start) for start, _ in expired],
            oldest_ms=expired[0][1] if expired else 0,
            now_ms=now_ms,
        )

    def _verify(self) -> VerifiedFacts:
        counts, count = VerifyCounts(), 0
        findings: list[str] = []
        for finding in verify(self._directory, commit_log=self._commit_log, verified=counts):
            count += 1
            if len(findings) < FINDINGS_MAX:
                findings.append(str(finding))
        return VerifiedFacts(counts.messages, findings, count)

    def _read_disk(self, settings: Mapping[str, str]) -> DiskLevels:
        """Measure the fuller of the disks."""
        folders = [self._directory, *([] if self._commit_log is None else [self._commit_log])]
        try:
            used = max(self._files.used_percent(os.fspath(folder)) for folder in folders)
        except OSError as error:
            raise StoreError(f"{self._directory} cannot be looked at: {error.strerror}.") from error
        clean = _read_number(settings, CLEAN_SETTING, int(CLEAN_DEFAULT))
        return DiskLevels(used, clean, _read_number(settings, REFUSE_SETTING, int(REFUSE_DEFAULT)))

    def _read_settings(self) -> dict[str, str]:
        """Read the settings that a broker of ours keeps in its store. Those of broker.conf are not known here."""
        try:
            return dict(decode_config((self._directory / "config" / SETTINGS_FILE).read_bytes()))
        except (OSError, BodyError):
            return {}


def _read_checkpoint(store: OfflineStore) -> CheckpointFacts:
    """Read the log from where the checkpoint says it to be safe. Of Apache's, at most the last two segments."""
    checkpoint, starts = store.checkpoint, store.log.starts
    last_two = max([checkpoint.queue_physical_offset, *starts[-2:][:1]])
    begin = last_two if checkpoint.safe_end is None else checkpoint.safe_end
    end, newest_ms = begin, 0
    for item in store.items(begin, check=False):
        if isinstance(item, FoundRecord):
            newest_ms = max(newest_ms, item.record.store_timestamp)
        end = item.offset
    return CheckpointFacts(end, checkpoint.safe_end, newest_ms, checkpoint.queue_timestamp)


def _read_number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdigit() else default


def _names(folder: str) -> list[str]:
    try:
        return sorted(path.name for path in Path(folder).iterdir())
    except OSError:
        return []
