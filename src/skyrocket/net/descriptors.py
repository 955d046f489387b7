"""How many connections and files a server may have open: the process's limit of descriptors (`ulimit -n`), divided between them.

    0                                                                          limit
    |--- store files ---|--- connections ----------------------------|-- others --|

A server without a descriptor left can neither accept nor write. So connections get what the store's files leave over, and the
server closes every further connection at once.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Final, NamedTuple

OTHERS: Final = 96  # listening sockets, connections to nameservers, standard streams, the event loop, the store's reserve
_UNLIMITED: Final = 1_048_576  # Linux's own bound for a process, unless it is configured otherwise


class DescriptorPlan(NamedTuple):
    connections_max: int
    files_max: int  # of the store
    warning: str | None  # one sentence, when the limit is too low for what was asked for


def raise_descriptor_limit() -> int:
    """Raise the process's soft limit to its hard limit. Return the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, _UNLIMITED) if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # a system may refuse a limit above its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return descriptor_limit()


def descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def point_to_null_device(descriptor: int) -> None:
    """Let a descriptor refer to the null device. What it referred to stays as it is for other processes."""
    null_device = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_device, descriptor, inheritable=False)
    os.close(null_device)


def plan_descriptors(limit: int, connections: int, files: int = 0) -> DescriptorPlan:
    """Divide `limit` descriptors. If they are too few, files get up to half of them, and connections the rest."""
    needed = connections + files + OTHERS
    if limit >= needed:
        return DescriptorPlan(connections, files, None)
    left = max(2, limit - OTHERS)
    files_max = min(files, left // 2)
    connections_max = min(connections, left - files_max)
    return DescriptorPlan(
        connections_max,
        files_max,
        f"{limit} files and connections may be open together; {connections} connections and {files} store files need {needed}. "
        f"So at most {connections_max} connections are accepted. Raise the limit, for example with: ulimit -n {needed}",
    )
