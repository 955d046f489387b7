"""The limits of a machine and of a broker's process on it. Plain values; None is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Descriptors of a process: how many it may have open, how far it may raise that itself, and how many it has open."""

    name: str  # such as: the broker (process 4711), this shell
    soft: int | None = None
    hard: int | None = None
    open_count: int | None = None
    mapped_count: int | None = None  # files and areas that it has mapped into its memory

    @property
    def open_share(self) -> float:
        """How much of its soft limit the process uses, from 0 to 1. 0: not known."""
        return self.open_count / self.soft if self.open_count is not None and self.soft else 0.0


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What the kernel says. `kernel` has numbers by the name of sysctl, such as vm.swappiness."""

    kernel: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int | None = None
    swap_bytes: int | None = None
    process: ProcessLimits | None = None
