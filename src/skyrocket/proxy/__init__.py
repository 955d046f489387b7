"""The proxy: one address in front of a cluster, for clients that cannot reach its brokers' addresses.

    client ──▶ proxy ──▶ nameserver     routes, in which the proxy's address stands for the brokers'
                    └──▶ broker-a, …    every other request, unchanged, by the broker's name in it

It speaks the remoting protocol, as Apache's proxy does on its port 8080. Each client has connections of its own to the brokers
behind the proxy. So brokers see every client as one, and requests of brokers to a client find their way back.
"""
