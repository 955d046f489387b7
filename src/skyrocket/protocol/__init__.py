"""RocketMQ's protocol: bytes to values and back. No input or output, no clock, no randomness.

frame, command      the stream, and what a frame carries
header, headers/    typed headers; requests, responses: the tables of codes
ordinary_send, alike_pulls, oneway_end      the same for requests that come by the hundred thousand
record, batch       a message as stored and as sent to consumers; several in one send
bodies/, fastjson   JSON bodies, strict and in fastjson's dialect
"""
