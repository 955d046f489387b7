"""The broker: receives, stores and delivers messages over RocketMQ's protocol.

broker                      the process: builds the parts, starts and stops them
full_disk_start             runs the process, also one whose disk is full: for reading, until there is room
context                     what the parts share; each sub-package has an `install(context)`
errors                      domain errors of the tables, and their response codes
settings, limits            every setting as a typed row; every bound of the tables
persistence                 the files of the tables
nameserver_registration     registration with the nameservers
scheduler                   timed work of the parts

send/                       messages in: validation, redirects, fast path, parked answers
pull/                       messages out: checks, filters, fast path, long polling (where pulls wait)
delay/, retry               delay levels, timers, recall; messages that a consumer sends back, dead letters
transactions/               half messages, their ends, and the checks back to producers
request_reply               replies to requesters
tables/                     topics, groups, consumer offsets, clients, queue locks: plain objects without I/O
clients/                    requests of clients over those tables: heartbeats, offsets, locks
admin/                      requests of administrators, one module a noun
load/                       counters and rates, flow control, slow consumers
"""
