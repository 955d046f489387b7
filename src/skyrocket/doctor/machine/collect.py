"""Reads the limits of this machine from /proc. A machine without it, or a test, gives another root."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from skyrocket.doctor.machine.facts import MachineFacts, ProcessLimits

KERNEL_SETTINGS: Final = ("vm.swappiness", "vm.max_map_count", "vm.min_free_kbytes", "vm.overcommit_memory", "fs.file-max")
_OPEN_FILES: Final = re.compile(r"^Max open files\s+(\S+)\s+(\S+)", re.MULTILINE)
_MEMORY: Final = re.compile(r"^(MemTotal|SwapTotal):\s+(\d+) kB", re.MULTILINE)
_UNLIMITED: Final = 2**63 - 1


class MachineCollector:
    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def collect(self, process_id: int | None = None) -> MachineFacts:
        """Read the kernel's settings, and the limits of a process; without an id those of this one, which a broker would get."""
        memory = {name: int(number) * 1024 for name, number in _MEMORY.findall(_read(self._proc / "meminfo"))}
        kernel = {name: self._read_number(name) for name in KERNEL_SETTINGS}
        return MachineFacts(
            kernel={name: value for name, value in kernel.items() if value is not None},
            memory_bytes=memory.get("MemTotal"),
            swap_bytes=memory.get("SwapTotal"),
            process=self._read_process(process_id),
        )

    def _read_number(self, name: str) -> int | None:
        text = _read(self._proc / "sys" / Path(*name.split("."))).strip()
        return int(text) if text.isdigit() else None

    def _read_process(self, process_id: int | None) -> ProcessLimits | None:
        folder = self._proc / ("self" if process_id is None else str(process_id))
        found = _OPEN_FILES.search(_read(folder / "limits"))
        if found is None:
            return None
        soft, hard = (_UNLIMITED if text == "unlimited" else int(text) for text in found.groups())
        if process_id is None:
            return ProcessLimits("a broker that is started from here", soft, hard)
        maps = _read(folder / "maps")
        return ProcessLimits(
            f"the broker (process {process_id})", soft, hard, _count_files(folder / "fd"), maps.count("\n") if maps else None
        )


def find_process(proc: Path, path: Path) -> int | None:
    """Return the id of a process that has a file open; None if there is none, or if this user may not see it."""
    wanted = os.path.realpath(path)
    for folder in proc.iterdir() if proc.is_dir() else ():
        if folder.name.isdigit() and any(target == wanted for target in _open_files(folder / "fd")):
            return int(folder.name)
    return None


def _open_files(folder: Path) -> list[str]:
    found = []
    for name in _names(folder):
        try:
            found.append(str((folder / name).readlink()))
        except OSError:
            continue  # closed meanwhile
    return found


def _count_files(folder: Path) -> int | None:
    return len(_names(folder)) or None


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []  # of another user, or ended meanwhile


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
