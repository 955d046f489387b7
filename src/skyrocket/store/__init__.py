"""The message store on disk, byte-compatible with Apache RocketMQ 5.5.0's default store.

message_store   the store as one object: append, flush, dispatch, checkpoint, retain
message         what goes into the store, and what becomes of it
log/            the commit log: segments, records, checksums, damage, records written again under another queue
dispatch        from the commit log to consume queues and index
queues/         consume queues: where the messages of a topic's queue lie in the log
index/          the index: messages by key
read/           messages by queue, time, key and physical offset
horizon         appended, flushed, confirmed
flusher         flushes and checkpoints in a thread, group commit
recovery/       the checkpoint, recovery when a store is opened, repair of queue entries
retention/      which segments may be deleted, and how they go
disk_space      what happens as the disk fills up
changes_in_memory   a store that is opened for reading on a full disk
timers/         timer wheel and timer log
config_files    the JSON files in `config/`: topics, groups, offsets
offline/        a store directory read without a broker, and verified
files           the only module that touches the file system
"""
