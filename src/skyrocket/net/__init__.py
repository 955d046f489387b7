"""Remoting: connections that carry commands. Knows frames and commands, not messages.

limits          every bound and time-out, in one place
pending         requests that wait for their response (pure)
connection      one connection, either way: frames in, commands out, one write a turn
tls             TLS on the same port: the first byte tells
router          from a request's code to its handler
server          listening, counting, watching, draining
dialer          connections that we open, shared by address
"""
