"""The log on disk, byte-compatible with Apache RocketMQ 5.5.0's default store.

files                    the one port to the file system; everything else goes through it
segments                 a long file cut into fixed-size ones, named by where they start
commit_log               all messages of all topics, in order of arrival
consume_queue(s)         where a topic's queue has its messages in the log
index_file, index        messages by key
checksums                a CRC over each whole record, beside the log
checkpoint, recovery     how far things were safe; what to do at start
horizon, group_commit    appended, flushed, confirmed
reading                  messages by queue, time, key and place; queue_run, framed_runs: many at once, for pulls
retention                what may go
message_store            the whole of it
offline, arrow, verify   a store directory read without a broker
"""
