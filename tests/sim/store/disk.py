"""The disk of a simulated node: `tests/support/stores/simulated_disk.py`, with bytes that a power cut leaves damaged.

Writes that were not synced are lost, kept or torn, sector by sector. Some of those that were kept are damaged: the drive wrote
other bytes than it was given. Bytes that were synced stay as they are, also in a sector that they share with others.

Of a message that was just appended, the format's own checksum covers the body alone; the store's checksums of whole records
are written later. A single flipped bit in a topic, say, cannot be seen. So damage of the log covers at least GARBAGE_BYTES_MIN
bytes: it hits a body, or what tells where a record begins and ends. Everywhere else it is a single bit.
"""

from __future__ import annotations

from random import Random

from tests.support.stores.simulated_disk import SECTOR_BYTES, SimulatedDisk

DAMAGING_SHARE = 0.2  # of the power cuts
DAMAGED_SHARE = 0.5  # of the unsynced sectors, after such a one
GARBAGE_BYTES_MIN = 128


def after_power_cut(disk: SimulatedDisk, rng: Random) -> SimulatedDisk:
    """Return the disk as the node finds it when the power is back."""
    damages = rng.random() < DAMAGING_SHARE
    unsynced = [(path, disk.nodes[path].differing(), bytes(disk.nodes[path].durable)) for path in sorted(disk.nodes)]
    left = disk.crash(rng)
    if damages:
        for path, sectors, before in unsynced:
            content = left.nodes[path].content
            for sector in sectors:
                if rng.random() < DAMAGED_SHARE:
                    _damage(content, before, sector, rng, is_log="/data/" in path)
            left.nodes[path].durable[:] = content
    return left


def _damage(content: bytearray, before: bytes, sector: int, rng: Random, *, is_log: bool) -> None:
    """Damage what was written to a sector since the last sync."""
    written = [at for at in range(sector, min(sector + SECTOR_BYTES, len(content))) if content[at] != before[at]]
    if not written:
        return
    first, stop = written[0], written[-1] + 1
    if not is_log:
        content[rng.choice(written)] ^= 1 << rng.randrange(8)
    elif stop - first >= GARBAGE_BYTES_MIN:
        content[first:stop] = rng.randbytes(stop - first)
