"""Which entries of a DLedger node's directory are known to be confirmed: nothing that a majority has may be cut off.

checkpoint   committedIndex, as far as the node has saved it; Apache's node saves it every three seconds
queues       only confirmed messages get into them; ours are behind the checkpoint, Apache's may be ahead of it
"""

from __future__ import annotations

from skyrocket.store.files import Disk
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryHeader, unpack_header
from skyrocket.store.ledger.node_files import LedgerCheckpointFile
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.offline.offline_store import EVER_MS, OfflineStore
from skyrocket.store.queues.consume_queue import QueueEntry


def find_confirmed_index(store: OfflineStore) -> int:
    """Return the index of the last entry that is known to be confirmed; -1 if none is."""
    committed = LedgerCheckpointFile(Disk(), store.paths.ledger_checkpoint).read().committed_index
    if store.checkpoint.is_ours:
        return committed
    queues = [queue for key in store.queue_keys() if (queue := store.queue(*key)) is not None]
    last = [entry for queue in queues if (entry := queue.entry(queue.max_offset - 1)) is not None]
    headers = [header for entry in last if (header := _header_of(store, entry)) is not None]
    return max([committed, *(header.index for header in headers)])


def find_confirmed_end(store: OfflineStore) -> int:
    """Return the log offset before which every message is confirmed, so that a closed store has it in its queue."""
    if store.paths.ledger_id is None:
        return EVER_MS
    committed = find_confirmed_index(store)
    end = store.log.start
    for item in store.log.walk(store.log.start, check=False):
        header = _header_at(store, item.offset - HEADER_BYTES) if isinstance(item, FoundRecord) else None
        if header is not None and header.index > committed:
            break
        end = end if header is None else header.end
    return end


def _header_of(store: OfflineStore, entry: QueueEntry) -> EntryHeader | None:
    """Return the header of the entry whose message a queue entry names; None when the log has no such message there."""
    header = _header_at(store, entry.physical_offset - HEADER_BYTES) if entry.physical_offset >= HEADER_BYTES else None
    fits = header is not None and header.record_offset == entry.physical_offset and header.size == HEADER_BYTES + entry.size
    return header if fits else None


def _header_at(store: OfflineStore, pos: int) -> EntryHeader | None:
    view = store.log.view(pos, HEADER_BYTES)
    return None if view is None else unpack_header(view)
