"""The fence: which driver may commit the batches of a query. Pure.

Two drivers can run one checkpoint at the same time: an orchestrator starts a second one because the first does not answer, and
the first was only slow. Each run of a driver takes an epoch in the ledger before its first commit, one higher than any other, and
every entry names the epoch and the run that wrote it. The run with the highest epoch holds the fence; any other run stops.

    driver 1    opened(1)  committing 7 … committed 7                     committing 8, then reads epoch 2: stops before any END
    driver 2                                           opened(2), reads   finishes 8, or begins it
                ─────────────────────────────────────────────────────────────────────────────────────────────── the ledger ──►

Both write first and read then, so at least one of them sees the other: either the older driver sees the new epoch before its
first END, or the newer one sees the older one's "committing" and finishes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

FENCED_MAX: Final = 32  # runs of earlier epochs that an entry names
_EPOCH, _RUN, _FENCED = "SR_EPOCH", "SR_RUN", "SR_FENCED"


class BatchPlace(NamedTuple):
    """A batch of a query, and the run of the driver that commits it. Each start of a query, or of a batch write, is a run."""

    query_id: str
    batch_id: int
    run_id: str


class Fence(NamedTuple):
    """An epoch, and the run that holds it. Epoch 0 belongs to no run. A higher fence replaces a lower one."""

    epoch: int = 0
    run: str = ""  # the run's label; decides between two runs that took the same epoch at the same time
    fenced: tuple[str, ...] = ()  # runs of earlier epochs, the newest first: a run that was fenced long ago finds itself here

    def next(self, run: str) -> Fence:
        """Return the fence of a run that takes over."""
        before = (self.run, *self.fenced) if self.run else ()
        return Fence(self.epoch + 1, run, before[:FENCED_MAX])


NO_FENCE: Final = Fence()


def run_label(run_id: str) -> str:
    return blake2b(run_id.encode(), digest_size=6).hexdigest()


def fence_properties(fence: Fence) -> dict[str, str]:
    if not fence.epoch:
        return {}
    found = {_EPOCH: str(fence.epoch), _RUN: fence.run}
    return {**found, _FENCED: ",".join(fence.fenced)} if fence.fenced else found


def parse_fence(properties: Mapping[str, str]) -> Fence:
    """Parse the fence of an entry. Raise ValueError if it is malformed; an entry without one has epoch 0."""
    if _EPOCH not in properties:
        return NO_FENCE
    fenced = properties.get(_FENCED, "")
    return Fence(int(properties[_EPOCH]), properties.get(_RUN, ""), tuple(fenced.split(",")) if fenced else ())
