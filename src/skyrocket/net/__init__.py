"""Remoting: connections that carry commands. This package handles frames and commands, not messages.

limits          every bound and time-out
pending         requests that wait for their response (pure)
connection      one connection, incoming or outgoing: frames in, commands out, one write for each turn of the loop
addresses       what each client address has: connections, held bytes, quota
quota           so many requests and bytes a second for each address (pure)
held_bytes      the bounds on bytes that wait for clients that do not read
tls             TLS on the same port as plain connections
lateness        how long requests waited because the loop was busy
router          from a request's code to its handler
server          incoming connections: listen, count, time out, drain
dialer          outgoing connections, one to each address
"""
