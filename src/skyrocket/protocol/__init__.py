"""RocketMQ's wire protocol: convert bytes to values and back. No input or output, no clock, no randomness.

frame, command        frames in a byte stream, and the command that a frame carries
header, headers/      typed headers
requests, responses   the tables of request and response codes
fast_path/            one-step decoders for the most frequent requests: send, pull, end of transaction
message/              a message as stored and delivered (record), several in one send (batch), properties, ids, tags
bodies/, fastjson/    JSON bodies, in strict JSON and in fastjson's dialect
system_names          topics and groups that RocketMQ reserves
"""
