"""Write many pieces to a socket with one call, as far as it takes them now.

A transport would copy large pieces, or look at each of them. This is for a transport that has nothing left to write: what the
socket does not take is for the transport, and so is an error, which it meets again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from skyrocket.compiled import twin

Piece = bytes | memoryview

_VECTORS_MAX: Final = 1024  # of one call: the kernel's IOV_MAX


def _write_pieces(descriptor: int, pieces: Sequence[Piece]) -> int:
    """Return how many bytes the socket has taken.

    The twin also writes pieces that refer to the log's mapping (`compiled/queue_run.pyx`), without a copy.
    """
    try:
        return os.writev(descriptor, pieces[:_VECTORS_MAX])
    except OSError:
        return 0


write_pieces = twin("queue_run", _write_pieces)


def rest_of(pieces: Sequence[Piece], written: int) -> list[Piece]:
    """Return what is left of pieces when their first bytes are written."""
    for number, piece in enumerate(pieces):
        if written < len(piece):
            return [memoryview(piece)[written:] if written else piece, *pieces[number + 1 :]]
        written -= len(piece)
    return []
